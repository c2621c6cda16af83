// Also an old Node.js loads and runs this file: no import, and no new syntax.

/** The oldest Node.js that programs run on, as in `engines` of their packages. */
export const OLDEST_NODE = '20.19'

/** Why a version of Node.js cannot run a program; undefined if it can. */
export function nodeProblem(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE.split('.').map(Number)
  const isOld = major < oldestMajor || (major === oldestMajor && minor < oldestMinor)
  return isOld
    ? `Node.js ${version} is too old: install Node.js ${OLDEST_NODE} or newer`
    : undefined
}
