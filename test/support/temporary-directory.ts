import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** Gives all tests of a run a temporary directory that is theirs alone. What they leave in it goes with it. */
export default function setup(): () => void {
  // A short name: sockets lie below it.
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-t-'))
  // As the one of the machine: some tests are run by other users.
  chmodSync(directory, 0o1777)
  process.env.TMPDIR = directory
  return () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 })
}
