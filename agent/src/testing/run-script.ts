import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { bundle } from '../../../test/support/bundle.js'

interface ScriptPlace {
  /** What the imports of the script are relative to. */
  readonly resolveDir: string
  /** The directory for the built script. */
  readonly directory: string
}

/** A command for a process in a user namespace in which the kernel grants no watch: EMFILE. */
export const WITHOUT_WATCHES = [
  ...['unshare', '--user', '--map-root-user', '/bin/sh', '-c'],
  'for limit in /proc/sys/user/max_inotify_*; do echo 0 >$limit || exit; done; exec "$@"',
  'sh',
]

/** Why processes cannot be started so here; undefined if they can. */
export function missingForNoWatches(): string | undefined {
  const [file = '', ...args] = WITHOUT_WATCHES
  try {
    execFileSync(file, [...args, 'true'], { stdio: 'pipe' })
    return undefined
  } catch (error) {
    return `cannot have a user namespace: ${error}`
  }
}

/**
 * Runs a script with what it imports in a process that is started by another command.
 * @returns the JSON that the script prints
 */
export async function runScript(
  command: readonly string[],
  script: string,
  { resolveDir, directory }: ScriptPlace,
): Promise<unknown> {
  const built = path.join(directory, 'script.mjs')
  await bundle({ stdin: { contents: script, resolveDir }, outfile: built })
  const [file = '', ...args] = [...command, process.execPath, built]
  return JSON.parse(execFileSync(file, args, { encoding: 'utf8', timeout: 60_000 }))
}
