import { randomBytes } from 'node:crypto'
import { open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { systemClock } from '../clock/clock.js'
import { codeOf, messageOf } from '../errors/errors.js'

/** Distinguishes the processes that write a file: during an upgrade two agents run for a moment. */
const processId = randomBytes(4).toString('hex')

/** The file that the content is written to before it replaces the file. */
export function temporaryOf(file: string): string {
  return `${file}.${processId}.tmp`
}

/** A temporary file of this age is left over: no write takes so long. In milliseconds. */
const LEFTOVER_MS = 60_000

/**
 * Replaces a file. At any moment, also after a power cut, the file has either the old content or
 * the whole new content. Rejects with the error of the system if there is no space or no
 * permission: the file is unchanged then.
 * @param pieces of the content
 */
export async function replaceFile(file: string, pieces: readonly string[]): Promise<void> {
  const temporary = temporaryOf(file)
  try {
    await using handle = await open(temporary, 'w', 0o600)
    for (const piece of pieces) await handle.appendFile(piece)
    await handle.sync()
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  await rename(temporary, file)
  // The new name is durable after the directory is.
  await using directory = await open(path.dirname(file), 'r')
  await directory.sync()
}

/** A value, or a text that says what is wrong. */
type Parsed<T> = { readonly value: T } | { readonly wrong: string }

/** The content of a file of ours, or the reason why the file cannot be used. */
type FileContent<T> =
  | { readonly state: 'absent' }
  | { readonly state: 'read'; readonly value: T }
  /** The file was moved to `movedTo`, for a person to read. */
  | { readonly state: 'unusable'; readonly reason: string; readonly movedTo: string }

/**
 * Reads a file of ours. An unusable file is moved aside, never overwritten: a person may still
 * need its content.
 */
export async function readDurableFile<T>(
  file: string,
  parse: (json: unknown) => Parsed<T> | Promise<Parsed<T>>,
): Promise<FileContent<T>> {
  await removeLeftovers(file)
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { state: 'absent' }
    throw error
  }
  const result = await parseJson(text, parse)
  if ('value' in result) return { state: 'read', value: result.value }
  // With the time, so that a second unusable file does not replace the first.
  const movedTo = `${file}.corrupt-${systemClock.wallMs()}`
  await rename(file, movedTo)
  return { state: 'unusable', reason: result.wrong, movedTo }
}

/** Removes the temporary files of processes that were killed, not of a process that writes now. */
async function removeLeftovers(file: string): Promise<void> {
  const directory = path.dirname(file)
  const names = await readdir(directory).catch((): string[] => [])
  for (const name of names) {
    if (!name.startsWith(`${path.basename(file)}.`) || !name.endsWith('.tmp')) continue
    const leftover = path.join(directory, name)
    const found = await stat(leftover).catch(() => undefined)
    if (found !== undefined && systemClock.wallMs() - found.mtimeMs > LEFTOVER_MS)
      await rm(leftover, { force: true })
  }
}

async function parseJson<T>(
  text: string,
  parse: (json: unknown) => Parsed<T> | Promise<Parsed<T>>,
): Promise<Parsed<T>> {
  try {
    return await parse(JSON.parse(text))
  } catch (error) {
    return { wrong: messageOf(error) }
  }
}
