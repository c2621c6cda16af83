import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { isIgnored, runDockerfile } from '../../../scripts/images/build-steps.mjs'
import { stagePackages } from '../../../scripts/published.mjs'

export const root = path.join(import.meta.dirname, '../../..')

const run = promisify(execFile)

/** What lacks for packages to be packed. */
export function missingPackages(): string[] {
  const built = ['sdk/dist/index.d.ts', 'handlers/udev/dist/index.d.ts', CREATOR]
  return built.every((file) => existsSync(path.join(root, file))) ? [] : ['npm run build']
}

/** Runs a program as an author does. @throws with all of its output if it fails */
export async function runIn(
  cwd: string,
  file: string,
  ...args: readonly string[]
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  try {
    return await run(file, args, { cwd, env: authorEnvironment(), maxBuffer: 64 * 1024 * 1024 })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${[file, ...args].join(' ')} failed\n${stdout}${stderr}`, { cause: error })
  }
}

const SOURCE = 'https://github.com/example/akri.js'
const CREATOR = 'create-handler/dist/create-handler.js'

export const INSTALL = ['install', '--offline', '--no-audit', '--no-fund', '--silent']

/** The tarballs of what npm publishes, and the program that an author starts with. */
export class PackedPackages {
  readonly tarballs: string
  readonly #creator: string

  private constructor(directory: string) {
    this.tarballs = path.join(directory, 'tarballs')
    this.#creator = path.join(directory, 'creator')
  }

  /**
   * @param directory an empty directory
   * @param others packages of others that projects need: a test has no registry
   */
  static async pack(directory: string, others: readonly string[]): Promise<PackedPackages> {
    const packed = new PackedPackages(directory)
    for (const folder of [packed.tarballs, packed.#creator]) await mkdir(folder)
    const staged = stagePackages(path.join(directory, 'staged'), SOURCE)
    const folders = staged.map((found) => found.directory)
    folders.push(...others.map((name) => path.join(root, 'node_modules', name)))
    const into = ['--ignore-scripts', '--pack-destination', packed.tarballs]
    await runIn(directory, 'npm', 'pack', '--silent', ...into, ...folders)
    await runIn(packed.#creator, 'npm', ...INSTALL, packed.of('@akrijs/create-handler'))
    return packed
  }

  /** The tarball of a package, such as `@akrijs/sdk`. */
  of(name: string): string {
    const version: unknown = JSON.parse(
      readFileSync(path.join(root, 'node_modules', name, 'package.json'), 'utf8'),
    ).version
    return path.join(this.tarballs, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`)
  }

  /** `npm create @akrijs/handler`, where no registry has the packages of Akri. */
  create(cwd: string, ...args: readonly string[]): Promise<{ readonly stdout: string }> {
    const program = path.join(this.#creator, 'node_modules/.bin/create-handler')
    return runIn(cwd, program, '--packages', this.tarballs, ...args)
  }
}

/** An image that a project's Dockerfile gives. */
export interface ProjectImage {
  /** The directory of its files below /app. */
  readonly app: string
  /** What it runs, relative to /app. */
  readonly command: readonly string[]
}

/**
 * Builds the image of a project.
 * @param directory an empty directory
 * @param args build arguments, also for npm; without a registry if there are none
 */
export async function buildImage(
  project: string,
  directory: string,
  args: Readonly<Record<string, string>> = { npm_config_offline: 'true' },
): Promise<ProjectImage> {
  const text = (file: string) => readFile(path.join(project, file), 'utf8')
  const dockerfile = await text('Dockerfile')
  const ignored = existsSync(path.join(project, '.dockerignore')) ? await text('.dockerignore') : ''
  const image = await runDockerfile({
    dockerfile,
    directory,
    context: project,
    files: (await filesOf(project)).filter((file) => !isIgnored(file, ignored)),
    // The steps run with Node.js of this machine.
    imageOf: () => undefined,
    args: { ...args, npm_config_audit: 'false' },
  })
  const [entry = '[]'] = /(?<=^ENTRYPOINT ).*$/m.exec(dockerfile) ?? []
  return { app: path.join(image(''), 'app'), command: JSON.parse(entry) }
}

/** The files below a directory, without those of packages. */
export async function filesOf(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .filter((file) => !file.startsWith('node_modules/'))
    .sort()
}

/** Without what npm tells the scripts that it runs: the tests can be such a script. */
export function authorEnvironment(): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(([name]) => !/^(npm_|INIT_CWD$)/.test(name))
  const { PATH = '' } = process.env
  // Programs of the author run with the Node.js of the tests.
  return {
    ...Object.fromEntries(entries),
    PATH: `${path.dirname(process.execPath)}:${PATH}`,
  }
}
