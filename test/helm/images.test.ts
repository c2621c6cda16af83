import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { loadAll } from 'js-yaml'
import { afterAll, beforeAll, expect, it } from 'vitest'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { describeUnless } from '../support/unless.js'
import { chartYaml, type KubernetesObject, missingForChart, render, type Values } from './chart.js'
import { nested } from './workloads.js'

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../..')
const built = existsSync(path.join(root, 'agent/dist/akri-agent.js'))
const missing = built ? missingForChart : 'needs npm run build'
const { target: TARGETS }: { target: Record<string, { tags?: string[] }> } = JSON.parse(
  readFileSync(path.join(root, 'deploy/images/bake.json'), 'utf8'),
)

interface Container {
  readonly image: string
  readonly command?: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
}

interface WithPods extends KubernetesObject {
  readonly spec: { readonly template: { readonly spec: { readonly containers: Container[] } } }
}

const containersOf = (objects: readonly KubernetesObject[]): [name: string, Container][] =>
  objects
    .filter((object): object is WithPods => /^(DaemonSet|Deployment|Job)$/.test(object.kind))
    .flatMap(({ metadata, spec }) =>
      spec.template.spec.containers.map((container): [string, Container] => [
        metadata.name,
        container,
      ]),
    )

/** The name of the image that the bake file gives a target. */
function nameOf(target: string): string {
  const [tag] = TARGETS[target]?.tags ?? []
  return /\/([\w-]+):/.exec(tag ?? '')?.[1] ?? expect.fail(`no image of ${target}`)
}

const HANDLERS = builtIn.handlers.map(({ name }) => name)
const PROGRAMS = ['agent', 'controller', 'webhookConfiguration', ...HANDLERS]
const image = (target: string): Values => ({ repository: `example.org/${nameOf(target)}` })
/** Each program with its image, and the hook that cleans up with the image of the controller. */
const SMALL_IMAGES: [string, unknown][] = [
  ['agent.image', image('agent')],
  ['controller.image', image('controller')],
  ['webhookConfiguration.image', image('webhook')],
  ...HANDLERS.map((name): [string, unknown] => [`${name}.discovery.image`, image('handlers')]),
]
const APART = HANDLERS.map((name): [string, unknown] => [`${name}.discovery.enabled`, true])

describeUnless(missing, 'the images', () => {
  let trees: string
  beforeAll(async () => {
    trees = await mkdtemp(path.join(os.tmpdir(), 'akri-images-'))
    await run(process.execPath, [path.join(root, 'scripts/image-trees.mjs'), trees])
  })
  afterAll(() => rm(trees, { recursive: true, force: true }))

  /** The files that a container starts or loads, and that the tree of a target lacks. */
  function lackingIn(target: string, { command, env = [] }: Container): string[] {
    const [, program = '/app/akri-agent.js', ...args] = command ?? []
    const handlers = env.flatMap(({ name, value }) =>
      name === 'AKRI_HANDLERS' ? (value ?? '').split(',') : [],
    )
    return [
      path.resolve('/app', program),
      ...[...args, ...handlers]
        .filter((name) => name.startsWith('@akrijs/'))
        .map((name) => `/app/node_modules/${name}/package.json`),
    ].filter((file) => !existsSync(path.join(trees, target, file)))
  }

  it.each<[string, [string, unknown][]]>([
    ['handlers in the agent', []],
    ['handlers apart', APART],
    ['handlers apart, each in a process', [...APART, ['discovery.oneProcess', false]]],
  ])('of single programs have all that the chart starts in them: %s', async (_, values) => {
    const containers = containersOf(await render(nested([...SMALL_IMAGES, ...values])))
    const targets = containers.map(([, container]) => {
      const name = /^example\.org\/([\w-]+):/.exec(container.image)?.[1]
      const [target] = Object.keys(TARGETS).filter(
        (target) => target !== 'common' && nameOf(target) === name,
      )
      return target ?? expect.fail(`no target of ${container.image}`)
    })
    const small = values.length === 0 ? [] : ['handlers']
    expect([...new Set(targets)].sort()).toEqual(['agent', 'controller', ...small, 'webhook'])
    containers.forEach(([name, container], index) => {
      expect([name, lackingIn(targets[index] ?? '', container)]).toEqual([name, []])
    })
    // The hook is one of them, so the image of the controller has the program of the hook.
    expect(containers.map(([, { command = [] }]) => command[1])).toContain('/app/akri-cleanup.js')
  })

  it('with all handlers have what agent.full starts, and the small one lacks it', async () => {
    const containers = containersOf(await render({ agent: { full: true } }))
    for (const [name, container] of containers)
      expect([name, lackingIn('all', container)]).toEqual([name, []])
    const agent = containers.find(([name]) => name === 'akri-agent-daemonset')?.[1]
    expect(lackingIn('agent', agent ?? expect.fail('no agent'))).toHaveLength(HANDLERS.length - 3)
    // A value names the image with all handlers beside the small one.
    const fullRepository = `example.org/${nameOf('all')}`
    const values = { agent: { full: true, image: { ...image('agent'), fullRepository } } }
    const [full] = containersOf(await render(values)).filter(
      ([name]) => name === 'akri-agent-daemonset',
    )
    expect(full?.[1].image).toBe(`${fullRepository}:${chartYaml.appVersion}`)
  })

  it('of a released chart are those of its registry, also if a value names a part', async () => {
    const released = path.join(trees, 'chart')
    const script = path.join(root, 'scripts/released-chart.mjs')
    const env = { ...process.env, SOURCE: 'https://github.com/example/akri' }
    await run(process.execPath, [script, released, 'ghcr.io/example'], { env })
    const imagesOf = async (...options: string[]) => {
      const { stdout } = await run('helm', [
        ...['template', 'akri', path.join(released, 'akri'), '--kube-version', '1.34.0'],
        ...options,
      ])
      const objects = (loadAll(stdout) as (KubernetesObject | null)[]).filter((one) => one !== null)
      return [...new Set(containersOf(objects).map(([, container]) => container.image))]
    }
    const enabled = HANDLERS.flatMap((name) => ['--set', `${name}.discovery.enabled=true`])
    const name = `ghcr.io/example/${nameOf('all')}`
    expect(await imagesOf(...enabled)).toEqual([`${name}:${chartYaml.appVersion}`])
    const tags = PROGRAMS.flatMap((program) => {
      const at = HANDLERS.includes(program) ? `${program}.discovery` : program
      return ['--set', `${at}.image.tag=next`]
    })
    expect(await imagesOf(...enabled, ...tags)).toEqual([`${name}:next`])
    expect(await imagesOf('--set', 'image=null')).toEqual([`${name}:${chartYaml.appVersion}`])
    const { status } = spawnSync(process.execPath, [script, released, 'ghcr.io/a b'], { env })
    expect(status).toBe(1)
  })
})
