// Writes into each published package its licence, the notices of others, and its bill of materials.
// `--check` writes nothing, and fails where something would change, where something of others has
// no licence text, and where a base image has no digest.
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { imageContents, USB_BINARIES } from './image-contents.mjs'
import { noticesText } from './shipped/notices.mjs'
import {
  lockedPart,
  mergedParts,
  ownLicense,
  partsOf,
  ShippedError,
  usbCrates,
} from './shipped/parts.mjs'
import { imageBill, imageParts, packageBill } from './shipped/sbom.mjs'
import { manifestOf, root, workspaces } from './workspaces.mjs'

export const NOTICES = 'THIRD-PARTY-NOTICES.txt'
export const BILL = 'sbom.cdx.json'

/** The packages that npm publishes. */
export function publishedFolders() {
  return workspaces()
    .filter(({ manifest }) => manifest.private !== true)
    .map(({ folder }) => folder)
}

/** What belongs to a package, by file name. npm adds LICENSE by itself. */
export function packageFiles(folder) {
  const { name, files } = manifestOf(folder)
  for (const file of [NOTICES, BILL])
    if (!files.includes(file))
      throw new ShippedError(`${folder}/package.json: add ${file} to files`)
  return {
    LICENSE: `${ownLicense()}\n`,
    [NOTICES]: noticesText(name, partsOf(folder)),
    [BILL]: json(packageBill(folder)),
  }
}

/**
 * What belongs to an image, by file name.
 * @param {string} [image] as in image-contents.mjs @default the image with all programs
 * @param {string} [title] the name of an image that is built on it
 * @param {readonly import('./shipped/parts.mjs').Part[]} [added] the npm packages in its layer
 */
export function imageFiles(image, title, added = []) {
  const { name, programs, packages, npmPackages } = imageContents(image)
  const binaries = Object.values(USB_BINARIES)
  const crates = npmPackages.some((each) => binaries.includes(each)) ? usbCrates() : []
  const inBinary = crates.map(({ ref }) => ref)
  const locked = [
    ...npmPackages.map((each) => ({
      ...lockedPart(each),
      needs: binaries.includes(each) ? inBinary : [],
    })),
    ...crates,
  ]
  const parts = mergedParts([imageParts(programs, packages), locked])
  return {
    LICENSE: `${ownLicense()}\n`,
    [NOTICES]: noticesText(`The image ${name}`, parts),
    [BILL]: json(imageBill(title ?? name, programs, packages, [...locked, ...added])),
  }
}

function json(value) {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

/** @returns {string[]} what is wrong */
function problems(checking) {
  const found = []
  const attempt = (work) => {
    try {
      work()
    } catch (error) {
      if (!(error instanceof ShippedError)) throw error
      found.push(error.message)
    }
  }
  attempt(imageFiles)
  for (const folder of publishedFolders())
    attempt(() => {
      for (const [name, text] of Object.entries(packageFiles(folder))) {
        const file = path.join(folder, name)
        if (!checking) writeFileSync(path.join(root, file), text)
        else if (textOf(file) !== text)
          found.push(`${file} is not what is shipped: run node scripts/shipped.mjs`)
      }
    })
  return found
}

function textOf(file) {
  try {
    return readFileSync(path.join(root, file), 'utf8')
  } catch {
    return undefined
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const found = problems(process.argv.includes('--check'))
  for (const problem of found) process.stderr.write(`${problem}\n`)
  process.exit(found.length > 0 ? 1 : 0)
}
