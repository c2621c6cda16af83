import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { codeOf, messageOf } from '@akrijs/runtime'
import { StateFileError } from '../errors.js'

const REASONS: Readonly<Record<string, string>> = {
  EEXIST: 'it is not a directory',
  ENOTDIR: 'a parent of it is not a directory',
  // The parents exist by then: the kernel gives this error in file systems such as /proc.
  ENOENT: 'its file system holds no new directories',
}

/**
 * Makes a directory for the state, for this user alone, unless it exists.
 * @throws StateFileError
 */
export async function makeStateDirectory(directory: string): Promise<void> {
  await makeWithParents(path.resolve(directory)).catch((error: unknown) => {
    const code = String(codeOf(error))
    const why = Object.hasOwn(REASONS, code) ? REASONS[code] : messageOf(error)
    throw new StateFileError(
      `state directory ${directory} cannot be made: ${why}; choose another one, which this ` +
        'user may write to',
      { cause: error },
    )
  })
}

/** Level by level: with `recursive`, Node tries for ever below /proc. */
async function makeWithParents(directory: string): Promise<void> {
  await makeDirectory(directory).catch(async (error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
    await makeWithParents(path.dirname(directory))
    await makeDirectory(directory)
  })
}

/** Makes a directory, unless it exists. */
async function makeDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, { mode: 0o700 })
  } catch (error) {
    const exists = codeOf(error) === 'EEXIST'
    const found = exists ? await stat(directory).catch(() => undefined) : undefined
    if (!found?.isDirectory()) throw error
  }
}
