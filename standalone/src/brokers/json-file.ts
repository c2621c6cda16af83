import { renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

/** The content of a file; undefined if the file is absent or invalid. */
export async function readJson(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * Replaces a file. A rename is atomic: a kill during the write loses no content.
 * @param flush whether the content reaches the disk before the rename
 * @throws the error of the system
 */
export function writeJson(file: string, content: unknown, { flush = false } = {}): void {
  const next = `${file}.next`
  writeFileSync(next, JSON.stringify(content), { mode: 0o600, flush })
  renameSync(next, file)
}
