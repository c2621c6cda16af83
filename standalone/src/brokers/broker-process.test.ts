import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { BrokerLedger } from './broker-ledger.js'
import { BrokerProcess } from './broker-process.js'

function start(script: string) {
  const clock = new ManualClock()
  const lines: string[] = []
  const broker = new BrokerProcess({
    file: '/bin/sh',
    args: ['-c', script],
    env: { PATH: process.env.PATH ?? '' },
    workingDirectory: undefined,
    clock,
    onLine: (line) => lines.push(line),
  })
  /** Waits while the time of the agent passes. */
  const later = (look: () => unknown) =>
    eventually(async () => {
      await clock.advance(1000)
      await look()
    })
  const stop = async (options = stopping()) => {
    let isOver = false
    const stopped = broker.stop(options).finally(() => {
      isOver = true
    })
    await later(() => expect(isOver).toBe(true))
    return stopped
  }
  return { broker, lines, later, stop }
}

const stopping = (abandon = new AbortController().signal, onStubborn = () => {}) => ({
  abandon,
  onStubborn,
})

/** Signals to this process fail as those to a process of another user. @returns ends that */
function refuseSignals(pid: number): () => void {
  const { kill } = process
  const spy = vi.spyOn(process, 'kill').mockImplementation((target, signal) => {
    if (Math.abs(target) === pid) throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
    return kill.call(process, target, signal)
  })
  onTestFinished(() => spy.mockRestore())
  return () => spy.mockRestore()
}

/** Ended: also if its parent has not reaped it yet. */
function isGone(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .startsWith('Z')
  } catch {
    return true
  }
}

describe('the process of a broker', () => {
  it('reports its end', async () => {
    expect(await start('exit 3').broker.ended).toEqual({
      succeeded: false,
      reason: 'it exited with code 3',
    })
    expect(await start('exit 0').broker.ended).toEqual({
      succeeded: true,
      reason: 'it exited with code 0',
    })
    expect(await start('kill -9 $$').broker.ended).toEqual({
      succeeded: false,
      reason: 'it was ended by SIGKILL',
    })
  })

  it.each([
    ['/no/such', 'its command /no/such does not exist'],
    ['/etc/passwd/such', 'its command /etc/passwd/such does not exist'],
    ['no-such', 'its command no-such does not exist in PATH'],
    ['/etc/passwd', 'its command /etc/passwd is no program, or may not be run'],
  ])('gives the reason why %s cannot be started', async (file, reason) => {
    const env = { PATH: '/bin' }
    const broker = new BrokerProcess({
      file,
      args: [],
      env,
      workingDirectory: undefined,
      clock: new ManualClock(),
      onLine: () => {},
    })
    expect(await broker.ended).toEqual({
      succeeded: false,
      reason: `it cannot be started: ${reason}`,
      field: 'command[0]',
    })
  })

  it.each([
    ['/no/such', 'does not exist'],
    ['/etc/passwd', 'is not a directory'],
  ])('gives the reason why it cannot be started in %s', async (workingDirectory, why) => {
    const broker = new BrokerProcess({
      file: '/bin/true',
      args: [],
      env: {},
      workingDirectory,
      clock: new ManualClock(),
      onLine: () => {},
    })
    expect(await broker.ended).toEqual({
      succeeded: false,
      reason: `it cannot be started: its workingDir ${workingDirectory} ${why}`,
      field: 'workingDir',
    })
  })

  it('reports a missing interpreter of a script', async () => {
    const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'akri-broker-')), 'script')
    writeFileSync(file, '#!/no/such/interpreter\n', { mode: 0o755 })
    const broker = new BrokerProcess({
      file,
      args: [],
      env: {},
      workingDirectory: undefined,
      clock: new ManualClock(),
      onLine: () => {},
    })
    expect((await broker.ended).reason).toBe(
      `it cannot be started: the interpreter that its command ${file} names does not exist`,
    )
  })

  it('reports a missing working directory', async () => {
    const workingDirectory = '/no/such/directory'
    const broker = new BrokerProcess({
      file: 'true',
      args: [],
      env: {},
      workingDirectory,
      clock: new ManualClock(),
      onLine: () => {},
    })
    expect((await broker.ended).reason).toBe(
      'it cannot be started: its workingDir /no/such/directory does not exist',
    )
  })

  it('ends with all processes that it started, also those that ignore SIGTERM', async () => {
    const { lines, stop } = start(
      'sh -c "trap \'\' TERM; echo \\$\\$; while :; do sleep 1; done" & wait',
    )
    await eventually(() => expect(lines).toHaveLength(1))
    expect(await stop()).toBe(true)
    await eventually(() => expect(isGone(Number(lines[0]))).toBe(true))
  })

  it('waits for a process of another user, which it may not end', async () => {
    const { broker, later, stop } = start('exec sleep 1000')
    refuseSignals(broker.pid ?? 0)
    const stubborn = vi.fn()
    let outcome: boolean | undefined
    const stopped = stop(stopping(undefined, stubborn)).then((isEnded) => {
      outcome = isEnded
    })
    await later(() => expect(stubborn).toHaveBeenCalledTimes(1))
    expect(outcome).toBeUndefined()
    vi.restoreAllMocks()
    process.kill(broker.pid ?? 0, 'SIGKILL')
    await stopped
    expect(outcome).toBe(true)
    expect(stubborn).toHaveBeenCalledTimes(1)
  })

  it('leaves a process of another user behind when the agent ends', async () => {
    const { broker, stop } = start('exec sleep 1000')
    const allow = refuseSignals(broker.pid ?? 0)
    expect(await stop(stopping(AbortSignal.abort()))).toBe(false)
    allow()
    expect(await stop()).toBe(true)
  })

  it('bounds a line without an end', async () => {
    const { broker, lines } = start('head -c 300000 /dev/zero | tr "\\0" x; echo; echo last')
    await broker.ended
    await eventually(() => expect(lines.at(-1)).toBe('last'))
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(2000)
  })
})

describe('the ledger of brokers', () => {
  const file = () => path.join(mkdtempSync(path.join(os.tmpdir(), 'akri-ledger-')), 'brokers.json')

  it('ends the brokers of a killed agent, and no other process', async () => {
    const at = file()
    const left = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    const other = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    const ended = once(left, 'exit')
    try {
      new BrokerLedger(at).add(left.pid ?? 0, 'a/b')
      const kept: unknown[] = JSON.parse(readFileSync(at, 'utf8'))
      // The pid of an earlier broker, which another program has now.
      writeFileSync(at, JSON.stringify([...kept, { pid: other.pid, started: '1' }]))
      expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [left.pid], left: [] })
      await ended
      expect(isGone(other.pid ?? 0)).toBe(false)
      expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [], left: [] })
    } finally {
      left.kill('SIGKILL')
      other.kill('SIGKILL')
    }
  })

  it('ends the processes of a broker that has ended itself', async () => {
    const at = file()
    // The shell leads the group and ends; its child runs on.
    const leader = spawn('sh', ['-c', 'sleep 1000 & echo $!; read wait'], {
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const ended = once(leader, 'exit')
    const member = Number(String((await once(leader.stdout, 'data'))[0]))
    new BrokerLedger(at).add(leader.pid ?? 0, 'a/b')
    leader.kill('SIGKILL')
    await ended
    expect(isGone(member)).toBe(false)
    expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [leader.pid], left: [] })
    await eventually(() => expect(isGone(member)).toBe(true))
  })

  it('ends the other brokers if one runs as another user, which it remembers', async () => {
    const at = file()
    const foreign = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    const other = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    const pids = [foreign.pid ?? 0, other.pid ?? 0] as const
    const ended = once(other, 'exit')
    try {
      const ledger = new BrokerLedger(at)
      for (const pid of pids) ledger.add(pid, `a/${pid}`)
      refuseSignals(pids[0])
      const next = new BrokerLedger(at)
      expect(await next.endLeftovers()).toEqual({ ended: [pids[1]], left: [pids[0]] })
      await ended
      next.add(process.pid, 'a/b')
      next.remove(process.pid)
      expect(JSON.parse(readFileSync(at, 'utf8'))).toMatchObject([{ pid: pids[0] }])
      expect(ledger.kill()).toEqual([pids[0]])

      expect(pids.map((pid) => next.hasLeftover(`a/${pid}`))).toEqual([true, false])
      const clock = new ManualClock()
      const { signal } = new AbortController()
      let isOver = false
      const over = next.untilEnded(`a/${pids[0]}`, clock, signal).then(() => {
        isOver = true
      })
      await clock.advance(5000)
      expect(isOver).toBe(false)
      const foreignEnd = once(foreign, 'exit')
      foreign.kill('SIGKILL')
      await foreignEnd
      await clock.advance(1000)
      await over
      expect(next.hasLeftover(`a/${pids[0]}`)).toBe(false)
      expect(readFileSync(at, 'utf8')).toBe('[]')
    } finally {
      foreign.kill('SIGKILL')
      other.kill('SIGKILL')
    }
  })

  it('ends no process that an entry of another boot fits', async () => {
    const at = file()
    const other = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    try {
      new BrokerLedger(at).add(other.pid ?? 0, 'a/b')
      const entries: object[] = JSON.parse(readFileSync(at, 'utf8'))
      writeFileSync(at, JSON.stringify(entries.map((entry) => ({ ...entry, boot: 'before' }))))
      expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [], left: [] })
      expect(isGone(other.pid ?? 0)).toBe(false)
    } finally {
      other.kill('SIGKILL')
    }
  })

  it('treats an invalid file as an empty one', async () => {
    const at = file()
    writeFileSync(at, '[{"pid": 1, "started": "1"}, nonsense')
    expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [], left: [] })
  })
})
