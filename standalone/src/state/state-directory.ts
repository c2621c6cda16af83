import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '@akrijs/runtime'
import { StateFileError } from '../errors.js'

const REASONS: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a directory',
  ENOTDIR: 'a parent of it is not a directory',
  EROFS: 'its file system is read-only',
  // The parents exist by then: the kernel gives this error in file systems such as /proc.
  ENOENT: 'its file system holds no new directories',
  EACCES: 'this user may not make it',
}

/**
 * Makes a directory for the state, for this user alone, unless it exists.
 * @throws StateFileError
 */
export async function makeStateDirectory(directory: string): Promise<void> {
  await makeWithParents(path.resolve(directory)).catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const why = Object.hasOwn(REASONS, code) ? REASONS[code] : messageOf(error)
    throw new StateFileError(
      `state directory ${directory} cannot be made: ${why}; choose another one, which this user may write to`,
      { cause: error },
    )
  })
}

/** Level by level: with `recursive`, Node tries for ever below /proc. */
async function makeWithParents(directory: string): Promise<void> {
  if (await made(directory, { orParentMissing: true })) return
  await makeWithParents(path.dirname(directory))
  await made(directory, { orParentMissing: false })
}

/** @returns false if the parent is missing, and may be */
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
