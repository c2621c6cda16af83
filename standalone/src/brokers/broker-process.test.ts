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

/** The end of a process without arguments. */
const endOf = (file: string, workingDirectory?: string) =>
  new BrokerProcess({
    file,
    args: [],
    env: { PATH: '/bin' },
    workingDirectory,
    clock: new ManualClock(),
    onLine: () => {},
  }).ended

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
  it.each([
    ['exit 3', 'it exited with code 3'],
    ['exit 0', 'it exited with code 0'],
    ['kill -9 $$', 'it was ended by SIGKILL'],
  ])('reports its end: %s', async (script, reason) => {
    const succeeded = script === 'exit 0'
    expect(await start(script).broker.ended).toEqual({ succeeded, reason })
  })

  it.each([
    ['/no/such', undefined, 'command[0]', 'its command /no/such does not exist'],
    ['/etc/passwd/x', undefined, 'command[0]', 'its command /etc/passwd/x does not exist'],
    ['no-such', undefined, 'command[0]', 'its command no-such does not exist in PATH'],
    [
      '/etc/passwd',
      undefined,
      'command[0]',
      'its command /etc/passwd is no program, or may not be run',
    ],
    ['true', '/no/such', 'workingDir', 'its workingDir /no/such does not exist'],
    ['/bin/true', '/etc/passwd', 'workingDir', 'its workingDir /etc/passwd is not a directory'],
  ])('gives the reason why %s cannot be started in %s', async (file, directory, field, reason) => {
    expect(await endOf(file, directory)).toEqual({
      succeeded: false,
      reason: `it cannot be started: ${reason}`,
      field,
    })
  })

  it('reports a missing interpreter of a script', async () => {
    const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'akri-broker-')), 'script')
    writeFileSync(file, '#!/no/such/interpreter\n', { mode: 0o755 })
    expect((await endOf(file)).reason).toBe(
      `it cannot be started: the interpreter that its command ${file} names does not exist`,
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
  /** A process that leads a group. It ends with the test. */
  function sleeper() {
    const child = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    onTestFinished(() => void child.kill('SIGKILL'))
    return { pid: child.pid ?? 0, ended: once(child, 'exit'), kill: () => child.kill('SIGKILL') }
  }

  it('ends the brokers of a killed agent, and no other process', async () => {
    const at = file()
    const [left, other] = [sleeper(), sleeper()]
    new BrokerLedger(at).add(left.pid, 'a/b')
    const [kept]: object[] = JSON.parse(readFileSync(at, 'utf8'))
    const others = [
      // The pid of an earlier broker, which another program has now.
      { ...kept, pid: other.pid, started: '1' },
      // The same ticks of another boot.
      { ...kept, boot: 'before' },
    ]
    writeFileSync(at, JSON.stringify(others))
    expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [], left: [] })
    writeFileSync(at, JSON.stringify([kept, ...others]))
    expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [left.pid], left: [] })
    await left.ended
    expect(isGone(other.pid)).toBe(false)
    expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [], left: [] })
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
    const [foreign, other] = [sleeper(), sleeper()]
    const ledger = new BrokerLedger(at)
    for (const { pid } of [foreign, other]) ledger.add(pid, `a/${pid}`)
    refuseSignals(foreign.pid)
    const next = new BrokerLedger(at)
    expect(await next.endLeftovers()).toEqual({ ended: [other.pid], left: [foreign.pid] })
    await other.ended
    next.add(process.pid, 'a/b')
    next.remove(process.pid)
    expect(JSON.parse(readFileSync(at, 'utf8'))).toMatchObject([{ pid: foreign.pid }])
    expect(ledger.kill()).toEqual([foreign.pid])

    expect([foreign, other].map(({ pid }) => next.hasLeftover(`a/${pid}`))).toEqual([true, false])
    const clock = new ManualClock()
    let isOver = false
    const { signal } = new AbortController()
    const over = next.untilEnded(`a/${foreign.pid}`, clock, signal).then(() => {
      isOver = true
    })
    await clock.advance(5000)
    expect(isOver).toBe(false)
    foreign.kill()
    await foreign.ended
    await clock.advance(1000)
    await over
    expect(next.hasLeftover(`a/${foreign.pid}`)).toBe(false)
    expect(readFileSync(at, 'utf8')).toBe('[]')
  })

  it('treats an invalid file as an empty one', async () => {
    const at = file()
    writeFileSync(at, '[{"pid": 1, "started": "1"}, nonsense')
    expect(await new BrokerLedger(at).endLeftovers()).toEqual({ ended: [], left: [] })
  })
})
