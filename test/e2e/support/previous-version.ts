import { execFile, spawnSync } from 'node:child_process'
import { copyFile, lstat, mkdir, readdir, readlink, rm, symlink } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../../..')

/**
 * The last commit of the version before: agents write `status.nodes` of Configurations, and their
 * Instances have no labels.
 */
const COMMIT = '693eb91d26654d125b05b3666eadd75e1dd8fd46'
const HANDLERS = ['handlers/debug-echo', 'handlers/udev']
/** What an agent of that version needs, in the order of builds. */
const BUILT = ['sdk', ...HANDLERS, 'agent']

/** The reason why the version before cannot be built; undefined if it can. */
export function missingPreviousVersion(): string | undefined {
  const { status } = spawnSync('git', ['cat-file', '-e', `${COMMIT}^{commit}`], { cwd: root })
  return status === 0 ? undefined : `needs the history of the repository: commit ${COMMIT}`
}

/** Programs of the version before, built with the packages that are installed now. */
export class PreviousVersion {
  readonly #directory: string

  private constructor(directory: string) {
    this.#directory = directory
  }

  static async build(): Promise<PreviousVersion> {
    const directory = path.join(root, '.cache/previous', String(process.pid))
    await mkdir(directory, { recursive: true })
    const archive = path.join(directory, 'source.tar')
    await run('git', ['archive', '--output', archive, COMMIT], { cwd: root })
    await run('tar', ['-xf', archive, '-C', directory])
    for (const folder of ['.', ...BUILT, 'api', 'kube', 'proto', 'runtime'])
      await linkPackages(path.join(root, folder), path.join(directory, folder))
    const tsup = path.join(root, 'node_modules/tsup/dist/cli-default.js')
    for (const folder of BUILT)
      await run(process.execPath, [tsup, '--silent'], { cwd: path.join(directory, folder) })
    return new PreviousVersion(directory)
  }

  get agent(): string {
    return path.join(this.#directory, 'agent/dist/akri-agent.js')
  }

  /** The value of AKRI_HANDLERS. */
  get handlers(): string {
    return HANDLERS.map((folder) => path.join(this.#directory, folder)).join()
  }

  remove(): Promise<void> {
    return rm(this.#directory, { recursive: true, force: true })
  }
}

/**
 * Links the installed packages of a folder. The links to packages of this repository are relative,
 * so that their copies lead to the version before.
 */
async function linkPackages(from: string, to: string): Promise<void> {
  const source = path.join(from, 'node_modules')
  const target = path.join(to, 'node_modules')
  for (const name of await readdir(source).catch(() => [])) {
    const installed = path.join(source, name)
    await mkdir(target, { recursive: true })
    if (name !== '@akrijs') {
      await symlink(installed, path.join(target, name))
      continue
    }
    await mkdir(path.join(target, name))
    for (const own of await readdir(installed)) {
      const link = path.join(installed, own)
      if ((await lstat(link)).isSymbolicLink())
        await symlink(await readlink(link), path.join(target, name, own))
      else await copyFile(link, path.join(target, name, own))
    }
  }
}
