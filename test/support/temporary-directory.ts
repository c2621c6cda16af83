import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'

/**
 * Gives all tests of a run a temporary directory of their own. It is removed after the run, with
 * its content.
 */
export default function setup(): () => void {
  // A short name: the paths of sockets are short.
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-t-'))
  // The mode of the machine's temporary directory: some tests run as other users.
  chmodSync(directory, 0o1777)
  process.env.TMPDIR = directory
  return () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 })
}

/** Makes a directory for one test, which goes with the directory of the run. */
export const temporaryDirectory = () => mkdtemp(path.join(os.tmpdir(), 'akri-'))
