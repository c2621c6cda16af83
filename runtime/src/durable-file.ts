import { randomBytes } from 'node:crypto'
import { open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { systemClock } from './clock.js'

/** Told from that of another process which writes the same file: during an upgrade two agents run for a moment. */
const own = randomBytes(4).toString('hex')

/** Where the content is written before it takes the place of the file. */
export function temporaryOf(file: string): string {
  return `${file}.${own}.tmp`
}

/** No write takes so long, in milliseconds. */
const LEFTOVER_MS = 60_000

/**
 * Replaces a file so that at any moment, also after a power cut, it holds either what it held or the whole new content.
 * Rejects with the system's error where there is no room or no right; the file is as it was then.
 */
export async function replaceFile(file: string, content: string): Promise<void> {
  const temporary = temporaryOf(file)
  try {
    await using handle = await open(temporary, 'w', 0o600)
    await handle.writeFile(content)
    await handle.sync()
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
  await rename(temporary, file)
  // The new name is durable once the directory is.
  await using directory = await open(path.dirname(file), 'r')
  await directory.sync()
}

/** What stands in a file of ours, or why it cannot be used. */
export type FileContent<T> =
  | { readonly state: 'absent' }
  | { readonly state: 'read'; readonly value: T }
  /** It has been moved to `movedTo`, for somebody to look at. */
  | { readonly state: 'unusable'; readonly reason: string; readonly movedTo: string }

/**
 * Reads a file of ours. One that makes no sense is moved aside, never overwritten: what cannot be read today may be of
 * use to whoever looks into it.
 * @param parse gives the value, or a text that says what is wrong
 */
export async function readDurableFile<T>(
  file: string,
  parse: (json: unknown) => { value: T } | { wrong: string },
): Promise<FileContent<T>> {
  await removeLeftovers(file)
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      return { state: 'absent' }
    throw error
  }
  const result = parseJson(text, parse)
  if ('value' in result) return { state: 'read', value: result.value }
  // With the time, so that a second one does not take the place of the first.
  const movedTo = `${file}.corrupt-${systemClock.wallMs()}`
  await rename(file, movedTo)
  return { state: 'unusable', reason: result.wrong, movedTo }
}

/** What a process was writing when it was killed; not what another one may be writing now. */
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

function parseJson<T>(
  text: string,
  parse: (json: unknown) => { value: T } | { wrong: string },
): { value: T } | { wrong: string } {
  try {
    return parse(JSON.parse(text))
  } catch (error) {
    return { wrong: error instanceof Error ? error.message : String(error) }
  }
}
