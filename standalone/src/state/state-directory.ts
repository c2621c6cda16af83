import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '@akrijs/runtime'
import { StateFileError } from '../errors.js'

const REASONS: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a directory',
  ENOTDIR: 'something above it is not a directory',
  EROFS: 'its file system is read-only',
  // What is missing above it has been made: that is what the kernel says where nothing can be, as in /proc.
  ENOENT: 'nothing can be made where it is to be',
  EACCES: 'this user has no right to',
}

/**
 * Makes a directory for the state, for nobody but this user, where there is none.
 * @throws StateFileError
 */
export async function makeStateDirectory(directory: string): Promise<void> {
  await makeWithParents(path.resolve(directory)).catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const why = Object.hasOwn(REASONS, code) ? REASONS[code] : messageOf(error)
    throw new StateFileError(
      `state directory ${directory} cannot be made: ${why}; give another one, which this user may write into`,
      { cause: error },
    )
  })
}

/** One by one: where the kernel refuses, as below /proc, Node's `recursive` tries for ever. */
async function makeWithParents(directory: string): Promise<void> {
  if (await made(directory, { orParentMissing: true })) return
  await makeWithParents(path.dirname(directory))
  await made(directory, { orParentMissing: false })
}

/** @returns false where what is above it is missing, if that may be */
async function made(
  directory: string,
  { orParentMissing }: { readonly orParentMissing: boolean },
): Promise<boolean> {
  try {
    await mkdir(directory, { mode: 0o700 })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (orParentMissing && code === 'ENOENT') return false
    const isThere =
      code === 'EEXIST' && (await stat(directory).catch(() => undefined))?.isDirectory()
    if (isThere !== true) throw error
  }
  return true
}
