// Software bills of materials: CycloneDX 1.6 in JSON, https://cyclonedx.org/docs/1.6/json/.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { manifestOf, root } from '../workspaces.mjs'
import { addonsOf, mergedParts, npmRef, partsOf, ShippedError } from './parts.mjs'

/**
 * @typedef {object} Bill
 * @property {object} subject the component that the bill is about
 * @property {readonly object[]} components
 * @property {readonly { ref: string, dependsOn: readonly string[] }[]} dependencies
 * @property {readonly object[]} compositions
 */

/** The bill of an npm package. */
export function packageBill(folder) {
  const parts = partsOf(folder)
  const { component, components, dependencies } = ownPackage(folder, parts)
  return bill({
    subject: component,
    components: [...components, ...parts.map(partComponent)],
    dependencies: [...dependencies, ...parts.map(partDependency)],
    compositions: [{ aggregate: 'complete', dependencies: [component['bom-ref']] }],
  })
}

/**
 * The bill of an image.
 * @param {string} image its name
 * @param {readonly { folder: string, files: readonly string[] }[]} programs and the files of each
 * @param {readonly { folder: string, files: readonly string[] }[]} packages
 * @param {readonly import('./parts.mjs').Part[]} [added] the npm packages of an optional layer
 */
export function imageBill(image, programs, packages, added = []) {
  const { name: base, version, digest } = baseImage()
  const subject = {
    type: 'container',
    'bom-ref': 'image',
    name: image,
    version: manifestOf('agent').version,
    licenses: licensesOf('Apache-2.0'),
  }
  const own = [...programs, ...packages].map(({ folder, files }) => {
    const parts = partsOf(folder, files)
    return { parts, ...ownPackage(folder, parts) }
  })
  const parts = mergedParts([...own.map((one) => one.parts), added])
  const baseRef = `pkg:docker/${base}@${digest}`
  const refs = own.map(({ component }) => component['bom-ref'])
  const components = [
    ...own.map(({ component }) => component),
    ...own.flatMap((one) => one.components),
  ]
  return bill({
    subject,
    components: [
      ...new Map(
        components
          // A package that npm installs beside ours can be a part of the image.
          .filter((component) => !parts.some(({ ref }) => ref === component['bom-ref']))
          .map((component) => [component['bom-ref'], component]),
      ).values(),
      {
        type: 'container',
        'bom-ref': baseRef,
        name: base,
        version,
        purl: baseRef,
        description:
          'The base image: Node.js and Debian, without npm and yarn. Its own packages are not ' +
          'listed here.',
      },
      ...parts.map(partComponent),
    ],
    dependencies: [
      { ref: subject['bom-ref'], dependsOn: [...refs, ...added.map(({ ref }) => ref), baseRef] },
      ...own.flatMap((one) => one.dependencies),
      ...parts.map(partDependency),
    ],
    compositions: [
      { aggregate: 'complete', assemblies: refs },
      { aggregate: 'unknown', assemblies: [baseRef] },
    ],
  })
}

/** The parts of all programs and packages of the image. */
export function imageParts(programs, packages) {
  return mergedParts([...programs, ...packages].map(({ folder, files }) => partsOf(folder, files)))
}

/** The base image, as the Dockerfile names it. */
export function baseImage() {
  const file = readFileSync(path.join(root, 'deploy/images/agent.Dockerfile'), 'utf8')
  const image = /^ARG NODE_IMAGE=(\S+)/m.exec(file)?.[1] ?? ''
  const [, name, version, digest] = /^([^:@]+):([^@]+)@(sha256:[0-9a-f]{64})$/.exec(image) ?? []
  if (digest === undefined)
    throw new ShippedError(`deploy/images/agent.Dockerfile: ${image} is no NAME:TAG@sha256:DIGEST`)
  return { name, version, digest }
}

/** A package of ours, with its addons and with what npm installs beside it. */
function ownPackage(folder, parts) {
  const {
    name,
    version,
    description,
    dependencies = {},
    peerDependencies = {},
  } = manifestOf(folder)
  const ref = npmRef(name, version)
  const addons = addonsOf(folder).map(({ file, sha256 }) => ({
    type: 'library',
    'bom-ref': `${ref}#${file}`,
    name: file,
    version,
    description: 'Compiled from native/uevent.c; links to no library.',
    hashes: [{ alg: 'SHA-256', content: sha256 }],
    licenses: licensesOf('Apache-2.0'),
  }))
  const beside = Object.entries(dependencies).map(([other, range]) => npmComponent(other, range))
  const optional = Object.keys(peerDependencies).map((other) => ({
    ...npmComponent(other),
    scope: 'optional',
  }))
  const refs = [...beside, ...addons, ...optional].map((other) => other['bom-ref'])
  return {
    component: { ...npmComponent(name, version, description), licenses: licensesOf('Apache-2.0') },
    components: [...addons, ...beside, ...optional],
    dependencies: [{ ref, dependsOn: [...refs, ...parts.map((part) => part.ref)] }],
  }
}

function npmComponent(fullName, version, description) {
  const [, group, name] = /^(?:(@[^/]+)\/)?(.*)$/.exec(fullName)
  const ref = npmRef(fullName, version)
  return {
    type: 'library',
    'bom-ref': ref,
    ...(group === undefined ? {} : { group }),
    name,
    ...(version === undefined ? {} : { version }),
    ...(description === undefined ? {} : { description }),
    purl: ref,
  }
}

/** @param {import('./parts.mjs').Part} part */
function partComponent({ ref, name, version, license, url, integrity }) {
  const isNpm = ref.startsWith('pkg:npm/')
  return {
    ...(isNpm
      ? npmComponent(name, version)
      : { type: 'library', 'bom-ref': ref, name, ...(version && { version }), purl: ref }),
    ...(integrity === undefined ? {} : { hashes: [hashOf(integrity)] }),
    licenses: licensesOf(license),
    ...(url === undefined ? {} : { externalReferences: [{ type: 'website', url }] }),
  }
}

function partDependency({ ref, needs }) {
  return { ref, dependsOn: needs }
}

/** An SPDX id, or an expression of several. */
function licensesOf(license) {
  return license.includes(' ') ? [{ expression: license }] : [{ license: { id: license } }]
}

/** `sha512-` and base64, as in package-lock.json. */
function hashOf(integrity) {
  const [, bits, content] = /^sha(\d+)-(.+)$/.exec(integrity)
  return { alg: `SHA-${bits}`, content: Buffer.from(content, 'base64').toString('hex') }
}

/**
 * Without a time: the same sources give the same bill. The serial number comes from its content.
 * @param {Bill} content
 */
function bill({ subject, components, dependencies, compositions }) {
  const { version } = JSON.parse(
    readFileSync(path.join(root, 'node_modules/esbuild/package.json'), 'utf8'),
  )
  const document = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      lifecycles: [{ phase: 'build' }],
      tools: { components: [{ type: 'application', name: 'esbuild', version }] },
      component: subject,
    },
    components: [...components].sort((a, b) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1)),
    dependencies: dependencies
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: [...new Set(dependsOn)].sort() }))
      .sort((a, b) => (a.ref < b.ref ? -1 : 1)),
    compositions,
  }
  const hash = createHash('sha256').update(JSON.stringify(document)).digest('hex')
  // The form of a UUID of version 8 (RFC 9562): its other bits are ours to choose.
  const uuid = hash.slice(0, 32).replace(/^(.{8})(.{4}).(.{3}).(.{3})(.*)$/, '$1-$2-8$3-a$4-$5')
  const { $schema, bomFormat, specVersion, ...rest } = document
  return { $schema, bomFormat, specVersion, serialNumber: `urn:uuid:${uuid}`, ...rest }
}
