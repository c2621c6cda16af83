import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { missingForOpen62541, Open62541 } from '../../handlers/opcua/test-peers/open62541.js'

/** The environment of servers. The variable names a directory with the Python package asyncua. */
export const serverEnvironment: NodeJS.ProcessEnv = {
  ...process.env,
  PYTHONPATH: process.env.AKRI_TEST_ASYNCUA ?? '',
}

/** A program with an OPC UA server of a stack. It prints "listening" when it is. */
interface Stack {
  readonly stack: string
  /** What this machine lacks for it. */
  readonly missing: readonly string[]
  /** @param address of the server; by default 127.0.0.1 */
  command(port: number, address?: string): string[]
}

const peers = path.join(import.meta.dirname, '../../examples/opcua-subscriber/test-peers')
const peer = (name: string) => path.join(peers, name)
const hasAsyncua = () =>
  spawnSync('python3', ['-c', 'import asyncua'], { env: serverEnvironment }).status === 0

const LOOPBACK = '127.0.0.1'

/** For open62541, `Open62541.build()` first. */
export const stacks: readonly Stack[] = [
  {
    stack: 'node-opcua',
    missing: [],
    command: (port, address = LOOPBACK) => [
      'node',
      peer('node-opcua-server.mjs'),
      String(port),
      address,
    ],
  },
  {
    stack: 'open62541',
    missing: missingForOpen62541,
    command: (port, address = LOOPBACK) => [
      Open62541.server,
      ...['-p', String(port), '-a', address],
    ],
  },
  {
    stack: 'asyncua',
    missing: hasAsyncua() ? [] : ['the Python package asyncua'],
    command: (port, address = LOOPBACK) => [
      'python3',
      peer('asyncua-server.py'),
      String(port),
      address,
    ],
  },
]
