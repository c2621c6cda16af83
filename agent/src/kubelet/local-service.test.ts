import { once } from 'node:events'
import net from 'node:net'
import path from 'node:path'
import { type RegisterRequest, RegistrationService } from '@akrijs/proto/device-plugin'
import { Server, ServerCredentials, type sendUnaryData, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { LocalService } from './local-service.js'

let directory: string
let server: Server
let listener: net.Server
/** All connections so far, and the open ones. */
let made: number
const connections = new Set<net.Socket>()
/** Answers every request. */
let waiting: (() => void)[]
let service: LocalService
const { signal } = new AbortController()

beforeEach(async () => {
  directory = await temporaryDirectory()
  made = 0
  waiting = []
  server = new Server()
  server.addService(RegistrationService, {
    register: ({ request }: { request: RegisterRequest }, answer: sendUnaryData<object>) => {
      if (request.endpoint === 'refused')
        answer({ code: status.INVALID_ARGUMENT, details: 'on purpose' })
      else waiting.push(() => answer(null, {}))
    },
  })
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  listener = net.createServer((connection) => {
    made++
    connections.add(connection)
    connection.on('close', () => connections.delete(connection))
    injector.injectConnection(connection)
  })
  const socket = path.join(directory, 'service.sock')
  await once(listener.listen(socket), 'listening')
  service = new LocalService(socket)
})

afterEach(async () => {
  server.forceShutdown()
  for (const connection of connections) connection.destroy()
  await new Promise((resolve) => listener.close(resolve))
})

function register(endpoint: string): Promise<unknown> {
  const resourceName = `akri.sh/${endpoint}`
  const request = { version: 'v1beta1', resourceName, endpoint, options: undefined }
  return service.ask('refused', RegistrationService.register, request, signal)
}

const asked = (count: number) => expect.poll(() => waiting.length).toBe(count)
const answerAll = () => {
  for (const answer of waiting.splice(0)) answer()
}

it('one connection is for simultaneous requests, and there is none without requests', async () => {
  const all = Promise.all(['a', 'b', 'c'].map(register))
  await asked(3)
  expect(made).toBe(1)
  answerAll()
  await all
  await expect.poll(() => connections.size).toBe(0)
  const later = register('d')
  await asked(1)
  expect(made).toBe(2)
  answerAll()
  await later
})

it('a connection is new after an error; the first one still gets its answers', async () => {
  const first = register('a')
  await asked(1)
  await expect(register('refused')).rejects.toThrow('on purpose')
  const second = register('b')
  await asked(2)
  expect(made).toBe(2)
  answerAll()
  await Promise.all([first, second])
  await expect.poll(() => connections.size).toBe(0)
})
