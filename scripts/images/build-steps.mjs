// Does what a builder does with the Dockerfile, in directories: each stage has the files that its
// COPY and RUN steps give it, and no others.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import path from 'node:path'
import { stagesOf } from './dockerfile.mjs'

/** What npm tells its scripts about themselves. */
const OF_NPM =
  /^(npm_(package|lifecycle|config_local_prefix|execpath|node_execpath|command)|INIT_CWD)/
const hasNetworkSpaces = spawnSync('unshare', ['-rn', 'true']).status === 0

/** Whether .dockerignore leaves a file of the context out. The last pattern that matches counts. */
export function isIgnored(file, dockerignore) {
  let ignored = false
  for (const line of dockerignore.split('\n')) {
    const pattern = line.trim()
    if (pattern === '' || pattern.startsWith('#')) continue
    const isException = pattern.startsWith('!')
    const expression = pattern
      .replace(/^!/, '')
      .replace(/[.+^$()|[\]{}]/g, '\\$&')
      .replace(/\*\*\/|\*/g, (found) => (found === '*' ? '[^/]*' : '(.*/)?'))
    // A directory stands for all that is in it.
    if (new RegExp(`^${expression}(/|$)`).test(file)) ignored = !isException
  }
  return ignored
}

/**
 * @param {object} options
 * @param {string} options.dockerfile its text
 * @param {string} options.directory where the stages are made
 * @param {string} options.context the directory of `COPY` without `--from`
 * @param {readonly string[]} options.files the files of the context
 * @param {(image: string, stage: string) => string | undefined} options.imageOf the files of an
 *   image, for a stage
 * @param {Readonly<Record<string, string>>} options.args build arguments
 * @returns {Promise<(stage: string) => string>} the directory of a stage
 */
export async function runDockerfile({ dockerfile, directory, context, files, imageOf, args }) {
  const stages = stagesOf(dockerfile)
  const roots = new Map()
  const rootOf = (stage) => {
    const root = roots.get(stage)
    if (root === undefined) throw new TypeError(`no stage ${stage}`)
    return root
  }
  for (const { name, from, steps } of stages) {
    const root = mkdtempSync(path.join(directory, 'stage-'))
    const below = from === 'scratch' ? undefined : (roots.get(from)?.root ?? imageOf(from, name))
    if (below !== undefined) link(below, root)
    const stage = { root, workdir: roots.get(from)?.workdir ?? '/' }
    const at = (file) => path.join(root, path.resolve(stage.workdir, file))
    for (const { keyword, flags, args: words, text } of steps) {
      if (keyword === 'WORKDIR') {
        stage.workdir = path.resolve(stage.workdir, words[0])
        mkdirSync(at('.'), { recursive: true })
      } else if (keyword === 'COPY') {
        const to = words.at(-1)
        for (const source of words.slice(0, -1).map((word) => withArgs(word, args)))
          if (flags.from === undefined) copyContext({ context, files }, source, at(to))
          else link(path.join(rootOf(flags.from).root, source), at(to))
      } else if (keyword === 'RUN') {
        await shell(text, at('.'), { network: flags.network !== 'none', args })
      }
    }
    roots.set(name, stage)
  }
  return (stage) => rootOf(stage).root
}

function withArgs(word, args) {
  return word.replace(/\$(\w+)/g, (_, name) => args[name] ?? '')
}

function copyContext({ context, files }, source, to) {
  const found = files.filter(
    (file) => source === '.' || file === source || file.startsWith(`${source}/`),
  )
  if (found.length === 0) throw new TypeError(`COPY ${source}: no such file in the context`)
  for (const file of found) {
    // A single file keeps its name in a directory, a directory gives its content.
    const inside = file === source ? path.basename(file) : path.relative(source, file)
    const target = path.join(to, inside)
    // It can be a link into another stage.
    rmSync(target, { force: true })
    cpSync(path.join(context, file), target)
  }
}

/** A copy whose files are links: nothing may write into a file, only replace it. */
function link(from, to) {
  mkdirSync(to, { recursive: true })
  // A single file keeps its name in a directory, a directory gives its content.
  const content = lstatSync(from).isDirectory() ? `${from}/.` : from
  const { status, stderr } = spawnSync('cp', ['-alf', content, to], { encoding: 'utf8' })
  if (status !== 0) throw new TypeError(`COPY ${from}: ${stderr}`)
}

async function shell(script, cwd, { network, args }) {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !OF_NPM.test(name) && name !== 'NODE_ENV'),
  )
  const offline = { npm_config_offline: 'true', npm_config_registry: 'http://127.0.0.1:9/' }
  const command = [
    ...(network || !hasNetworkSpaces ? [] : ['unshare', '-rn']),
    ...['/bin/sh', '-c', script],
  ]
  const child = spawn(command[0], command.slice(1), {
    cwd,
    env: { ...env, ...args, ...(network ? {} : offline) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => output.push(data))
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`RUN ${script}\nended with ${code}\n${Buffer.concat(output)}`)
}

/** @returns {string[]} the files below a directory, and links, relative to it */
export function filesBelow(directory) {
  return readdirSync(directory, { recursive: true })
    .filter((file) => !lstatSync(path.join(directory, file)).isDirectory())
    .sort()
}

/** The content of all files below a directory by name. @returns {Record<string, Buffer>} */
export function contentBelow(directory) {
  if (!existsSync(directory)) return {}
  return Object.fromEntries(
    filesBelow(directory).map((file) => [file, readFileSync(path.join(directory, file))]),
  )
}
