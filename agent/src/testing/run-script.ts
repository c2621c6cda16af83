import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { build } from 'esbuild'

interface ScriptPlace {
  /** What the imports of the script are relative to. */
  readonly resolveDir: string
  /** The directory for the built script. */
  readonly directory: string
}

/** The limits of watches in a user namespace: in `fs.inotify`, the limits of a user. */
type WatchLimit = 'max_inotify_instances' | 'max_inotify_watches'

/**
 * A command that starts a process in a user namespace of its own, in which the kernel grants no
 * watch of files.
 * @param limits which are 0: without instances a watch fails with EMFILE, else with ENOSPC
 */
export function withoutWatches(...limits: readonly WatchLimit[]): [string, ...string[]] {
  const steps = ['cd /proc/sys/user', ...limits.map((limit) => `echo 0 >${limit}`), 'cd "$0"']
  const script = [...steps, 'exec "$@"'].join(' && ')
  return ['unshare', '--user', '--map-root-user', '/bin/sh', '-c', script, process.cwd()]
}

export const WITHOUT_WATCHES = withoutWatches('max_inotify_watches', 'max_inotify_instances')

/** Why processes cannot be started so here; undefined if they can. */
export function missingForNoWatches(): string | undefined {
  const [file, ...args] = WITHOUT_WATCHES
  try {
    execFileSync(file, [...args, 'true'], { stdio: 'pipe' })
    return undefined
  } catch (error) {
    return `cannot have a user namespace: ${error}`
  }
}

/** CommonJS packages in a bundle need `require`. */
const BANNER =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)"

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
  await build({
    stdin: { contents: script, resolveDir },
    outfile: built,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: ['akri-source'],
    banner: { js: BANNER },
  })
  const [file = '', ...args] = [...command, process.execPath, built]
  return JSON.parse(execFileSync(file, args, { encoding: 'utf8', timeout: 60_000 }))
}
