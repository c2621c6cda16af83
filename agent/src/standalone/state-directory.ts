import { mkdir } from 'node:fs/promises'
import { messageOf } from '@akrijs/sdk'
import { StateFileError } from '../errors.js'

const REASONS: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a directory',
  ENOTDIR: 'something above it is not a directory',
  EROFS: 'its file system is read-only',
  // What is missing above it would be made too: that is what Node.js says where it cannot.
  ENOENT: 'what is above it cannot be made, as where the file system is read-only',
  EACCES: 'this user has no right to',
}

/**
 * Makes a directory for the state, for nobody but this user, where there is none.
 * @throws StateFileError
 */
export async function makeStateDirectory(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const why = Object.hasOwn(REASONS, code) ? REASONS[code] : messageOf(error)
    throw new StateFileError(
      `state directory ${directory} cannot be made: ${why}; give another one, which this user may write into`,
      { cause: error },
    )
  })
}
