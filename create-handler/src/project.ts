import { randomUUID } from 'node:crypto'
import { lstat, mkdir, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { codeOf, messageOf } from '@akrijs/runtime'
import { ProjectError } from './errors.js'

/** The content of the files of a directory, by their paths. */
export type DirectoryFiles = ReadonlyMap<string, string | Uint8Array>

/**
 * Checks that a project can become a directory: its parent exists, and the directory itself is
 * absent or empty.
 *
 * @returns its absolute path
 * @throws ProjectError
 */
export async function checkTarget(directory: string): Promise<string> {
  const target = path.resolve(directory)
  const parent = await realpath(path.dirname(target)).catch((error: unknown) => {
    throw new ProjectError(`there is no directory ${path.dirname(target)}; make it first`, {
      cause: error,
    })
  })
  const full = path.join(parent, path.basename(target))
  // The project replaces the directory, and the shell would stay in the one that is gone.
  if (full === (await realpath('.')))
    throw new ProjectError(`${target} is the working directory; name a directory in it`)
  const found = await lstat(full).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new ProjectError(`${target} cannot be read: ${messageOf(error)}`, { cause: error })
  })
  if (found !== undefined && !(found.isDirectory() && (await readdir(full)).length === 0))
    throw taken(target)
  return full
}

/**
 * Writes a directory at once: first beside it, under another name.
 *
 * @param directory as {@link checkTarget} returns it
 * @throws ProjectError; then nothing is left
 */
export async function writeProject(
  directory: string,
  files: DirectoryFiles,
  signal: AbortSignal,
): Promise<void> {
  const beside = path.join(path.dirname(directory), `.${path.basename(directory)}-${randomUUID()}`)
  try {
    await mkdir(beside)
    for (const [name, content] of files) {
      const file = path.join(beside, name)
      await mkdir(path.dirname(file), { recursive: true })
      await writeFile(file, content, { flag: 'wx', signal })
    }
    signal.throwIfAborted()
    await rename(beside, directory).catch((error: unknown) => {
      // The directory has got content since it was checked.
      if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(String(codeOf(error)))) throw taken(directory)
      throw error
    })
  } catch (error) {
    await rm(beside, { recursive: true, force: true })
    signal.throwIfAborted()
    if (error instanceof ProjectError) throw error
    throw new ProjectError(`${directory} cannot be written: ${messageOf(error)}`, { cause: error })
  }
}

function taken(directory: string): ProjectError {
  return new ProjectError(`${directory} is there already, and is not an empty directory`)
}
