// Usage: node scripts/images/installed.mjs. Fails if npm has installed a package that is not in
// package-lock.json with its version and digest. Without `npm ci`, npm also takes others.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { root } from '../workspaces.mjs'

/**
 * @typedef {Record<string, { version?: string, integrity?: string, link?: boolean }>} Packages
 * by directory, as in package-lock.json
 */

/**
 * @param {Packages} installed
 * @param {Packages} locked
 * @returns {string[]} the directories of packages that are not as the lock file says
 */
export function unlocked(installed, locked) {
  return Object.entries(installed).flatMap(([directory, { version, integrity, link }]) => {
    const wanted = locked[directory]
    // Packages of the repository are links to their folders, and have no digest.
    const isOurs = !directory.includes('node_modules/') || (link && wanted?.link)
    const isSame =
      integrity !== undefined && wanted?.integrity === integrity && wanted.version === version
    return (isOurs && wanted !== undefined) || isSame ? [] : [directory]
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const packagesOf = (file) => JSON.parse(readFileSync(path.join(root, file), 'utf8')).packages
  const found = unlocked(
    packagesOf('node_modules/.package-lock.json'),
    packagesOf('package-lock.json'),
  )
  for (const directory of found)
    process.stderr.write(`${directory} is not as package-lock.json says\n`)
  process.exit(found.length > 0 ? 1 : 0)
}
