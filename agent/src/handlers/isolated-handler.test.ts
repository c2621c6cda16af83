import { closeSync, openSync, writeFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { keepRunning } from './isolated-handler.js'

describe('a handler in a process of its own', () => {
  let directory: string
  let clock: ManualClock
  let logged: { readonly message: string; readonly fields: object }[]
  let stop: AbortController
  let running: Promise<void> | undefined

  beforeEach(async () => {
    directory = await temporaryDirectory()
    clock = new ManualClock()
    logged = []
    stop = new AbortController()
  })

  afterEach(async () => {
    stop.abort()
    await running
  })

  const file = (name: string) => path.join(directory, name)

  /** Runs a script as the handler program. `write` writes into the directory of handlers. */
  function run(script: string, variables: readonly string[] = []): void {
    const write = `
      const write = (name, text) => require('node:fs').writeFileSync(
        process.env.DISCOVERY_HANDLERS_DIRECTORY + '/' + name, text)`
    writeFileSync(file('program.cjs'), `${write}\n${script}`)
    start(variables)
  }

  function start(variables: readonly string[] = []): void {
    const note = (fields: object, message: string) => logged.push({ message, fields })
    const log: Logger = { debug: note, info: note, warn: note, error: note, child: () => log }
    const module = { name: 'sensor', program: file('program.cjs'), module: '/opt/sensor.js' }
    const options = { directory, variables, logLevel: 'debug', clock, log }
    running = keepRunning({ ...module, ...options }, stop.signal)
  }

  /** A script of a process that lives on. */
  const LIVES = `write('pid', String(process.pid)); setInterval(() => {}, 1000)`
  const pid = () =>
    eventually(async () => {
      const text = await readFile(file('pid'), 'utf8')
      expect(text).toMatch(/^\d+$/)
      return Number(text)
    })
  const ends = () =>
    logged.filter(({ message }) => message === 'isolated handler ended').map(({ fields }) => fields)

  it('is restarted after its end with growing pauses, and the log has the reason', async () => {
    const line = { level: 'warn', name: 'akri-handler', msg: 'no bus', bus: 7 }
    run(`
      process.stderr.write(${JSON.stringify(`${JSON.stringify(line)}\nthe last words`)})
      process.exitCode = 3`)
    // Each pause is twice the pause before, less a random part.
    for (const most of [500, 1000, 2000, 4000]) {
      await clock.untilSleeping()
      const [wait = 0] = clock.sleeping
      expect(wait).toBeGreaterThanOrEqual(most / 2)
      expect(wait).toBeLessThanOrEqual(most)
      expect(ends().at(-1)).toMatchObject({
        reason: 'it exited with code 3',
        lastLines: ['no bus', 'the last words'],
        retryInMs: wait,
      })
      await clock.advance(wait)
    }
    expect(logged).toContainEqual({ message: 'no bus', fields: { bus: 7 } })
  })

  it('ends although a process that it started holds its output', async () => {
    run(`
      const { spawn } = require('node:child_process')
      const { pid } = spawn('sleep', ['300'], { stdio: 'inherit', detached: true })
      write('pid', String(pid))
      process.exit(1)`)
    await clock.untilSleeping()
    process.kill(await pid())
    expect(ends()).toMatchObject([{ reason: 'it exited with code 1' }])
  })

  it('restarts with the first pause again after a long life', async () => {
    run(LIVES)
    const end = async () => {
      const life = await pid()
      await rm(file('pid'))
      process.kill(life)
      await clock.untilSleeping()
      return clock.sleeping[0] ?? 0
    }
    for (let life = 0; life < 3; life++) await clock.advance(await end())
    await pid()
    await clock.advance(60_000)
    expect(await end()).toBeLessThanOrEqual(500)
    expect(ends().at(-1)).toMatchObject({ reason: 'it was ended by SIGTERM' })
  })

  it("gets the agent's directory and a pipe, no credential, no Ctrl-C of the agent", async () => {
    const secrets = ['AWS_SECRET_ACCESS_KEY', 'GITHUB_TOKEN', 'KUBECONFIG', 'LD_PRELOAD']
    const own = ['KUBERNETES_SERVICE_HOST', 'AKRI_STATE_DIRECTORY', 'POD_IP', 'METRICS_PORT']
    const passedOn = ['LOG_LEVEL', 'DEBUG_ECHO_INSTANCES_SHARED', 'TZ', 'SENSOR_KEY']
    for (const name of [...secrets, ...own, ...passedOn])
      vi.stubEnv(name, name === 'LD_PRELOAD' ? '' : 'debug')
    try {
      run(
        `
        const { fstatSync, readFileSync } = require('node:fs')
        // Fields of proc(5) after the name: state, parent, group.
        const fields = readFileSync('/proc/self/stat', 'utf8').replace(/^.*\\) /s, '').split(' ')
        const isLeader = Number(fields[2]) === process.pid
        const told = [...process.argv.slice(2), fstatSync(0).isSocket(), isLeader].join(' ')
        write('environment', JSON.stringify({ ...process.env, told }))
        ${LIVES}`,
        ['SENSOR_KEY', 'POD_IP', 'NOT_SET'],
      )
      await pid()
      const environment: unknown = JSON.parse(await readFile(file('environment'), 'utf8'))
      expect(environment).toMatchObject({
        ...Object.fromEntries(passedOn.map((name) => [name, 'debug'])),
        PATH: process.env.PATH,
        told: '--until-stdin-ends /opt/sensor.js true true',
        DISCOVERY_HANDLERS_DIRECTORY: directory,
      })
      for (const name of [...secrets, ...own, 'NOT_SET'])
        expect(environment).not.toHaveProperty(name)
    } finally {
      vi.unstubAllEnvs()
    }
  })

  it('ends with the agent, by force if necessary, and is not restarted', async () => {
    run(`process.on('SIGTERM', () => write('asked', 'yes')); ${LIVES}`)
    const life = await pid()
    stop.abort()
    await eventually(async () => expect(await readFile(file('asked'), 'utf8')).toBe('yes'))
    await clock.untilSleeping()
    expect(clock.sleeping).toEqual([5000])
    await clock.advance(5000)
    await running
    expect(() => process.kill(life, 0)).toThrow('ESRCH')
    expect(ends()).toEqual([])
  })

  it('is tried again after there were no file descriptors left', async () => {
    writeFileSync(file('program.cjs'), `require('node:fs').writeFileSync('${file('pid')}', '7')`)
    const open: number[] = []
    try {
      for (;;) open.push(openSync('/dev/null', 'r'))
    } catch (error) {
      expect(error).toMatchObject({ code: 'EMFILE' })
    }
    try {
      start()
      await clock.untilSleeping()
    } finally {
      for (const descriptor of open) closeSync(descriptor)
    }
    expect(ends()).toMatchObject([{ reason: expect.stringMatching(/cannot be started: .*EMFILE/) }])
    await clock.advance(10_000)
    expect(await pid()).toBe(7)
  })
})
