import dgram from 'node:dgram'
import { isIPv6 } from 'node:net'
import { type DiscoveryProperties, withTimeLimit } from '@akrijs/sdk'
import { plainAddress } from '@akrijs/sdk/network'
import snmp from 'net-snmp'
import type { SnmpDetails } from './details.js'

/** The longest answer with four texts of 255 bytes, in bytes. */
const MAX_ANSWER_BYTES = 2048
/** Answers to one request, and to the one before it that asks for the engine of SNMPv3. */
const MAX_ANSWERS = 8
/** The longest text of a device (RFC 3418, DisplayString). */
const MAX_TEXT = 255

/** The objects of the system group (RFC 3418) that become properties. */
const OBJECTS = {
  DESCRIPTION: '1.3.6.1.2.1.1.1.0',
  OBJECT_ID: '1.3.6.1.2.1.1.2.0',
  NAME: '1.3.6.1.2.1.1.5.0',
  LOCATION: '1.3.6.1.2.1.1.6.0',
} as const

/** What a device says of itself, as far as it says it. */
export type SystemGroup = Readonly<Partial<Record<keyof typeof OBJECTS, string>>>

/** Why a device is not offered, in fixed words: those of net-snmp quote the community. */
export class SilentDevice extends Error {}

interface Query extends Pick<SnmpDetails, 'port' | 'authProtocol' | 'privacyProtocol'> {
  readonly address: string
  /** The secrets of the Configuration. */
  readonly properties: DiscoveryProperties
  /** The time for an answer; the request is sent twice in it. */
  readonly answerMs: number
  readonly signal: AbortSignal
}

/** @throws SilentDevice */
export async function readSystemGroup(query: Query): Promise<SystemGroup> {
  const { answerMs, signal } = query
  let limit = signal
  let session: snmp.Session | undefined
  try {
    return await withTimeLimit(answerMs, signal, (each) => {
      limit = each
      return new Promise<SystemGroup>((take, fail) => {
        limit.addEventListener('abort', () => fail(limit.reason), { once: true })
        session = open(query, (error) => fail(error))
        session.get(Object.values(OBJECTS), (error, found) =>
          error ? fail(error) : take(readObjects(found ?? [])),
        )
      })
    })
  } catch (error) {
    signal.throwIfAborted()
    const isLate = limit.aborted || Object(error).name === 'RequestTimedOutError'
    throw new SilentDevice(isLate ? `no answer in ${answerMs / 1000} s` : reasonOf(error))
  } finally {
    session?.close()
  }
}

function open(query: Query, fail: (error: unknown) => void): snmp.Session {
  const { address, port, answerMs, properties } = query
  const options = {
    ...{ port, retries: 1, timeout: answerMs / 2, version: snmp.Version2c },
    transport: isIPv6(address) ? ('udp6' as const) : ('udp4' as const),
    // Node.js would end with an exception that an answer causes.
    dgramModule: { createSocket: (type: dgram.SocketType) => guardedSocket(type, query, fail) },
  }
  const text = (name: string) => properties.text(name)?.replace(/\r?\n$/, '') || undefined
  const name = text('username')
  if (name === undefined) return listening(snmp.createSession(address, text('community'), options))
  const authKey = text('auth_password')
  const privKey = text('privacy_password')
  const { noAuthNoPriv, authNoPriv, authPriv } = snmp.SecurityLevel
  const level = authKey === undefined ? noAuthNoPriv : privKey === undefined ? authNoPriv : authPriv
  const { authProtocol, privacyProtocol } = query
  const user = {
    ...{ name, level },
    ...(authKey !== undefined && { authKey, authProtocol: snmp.AuthProtocols[authProtocol] }),
    ...(privKey !== undefined && { privKey, privProtocol: snmp.PrivProtocols[privacyProtocol] }),
  }
  return listening(snmp.createV3Session(address, user, { ...options, version: snmp.Version3 }))

  function listening(session: snmp.Session): snmp.Session {
    session.on('error', fail)
    return session
  }
}

/** A socket that gives net-snmp only what the asked device sends, and a little of it. */
function guardedSocket(
  type: dgram.SocketType,
  { address, port }: Query,
  fail: (error: unknown) => void,
): dgram.Socket {
  const socket = dgram.createSocket(type)
  const emit = socket.emit.bind(socket)
  let answers = 0
  const isAnswer = (bytes: Buffer, sender: dgram.RemoteInfo) =>
    plainAddress(sender.address) === address &&
    sender.port === port &&
    bytes.length <= MAX_ANSWER_BYTES
  return Object.assign(socket, {
    emit(event: 'message', bytes: Buffer, sender: dgram.RemoteInfo): boolean {
      if (event !== 'message') return emit(event, bytes, sender)
      if (!isAnswer(bytes, sender) || ++answers > MAX_ANSWERS) return false
      try {
        return emit(event, bytes, sender)
      } catch (error) {
        fail(error)
        return true
      }
    },
  })
}

function reasonOf(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException
  if (error instanceof snmp.RequestFailedError) return 'request refused'
  if (Object(error).code === snmp.ResponseInvalidCode.EAuthFailure)
    return 'user or password refused'
  return /UNREACH$/.test(code ?? '') ? 'no route to the address' : 'breaks the protocol'
}

/** The values go into the environment of containers. */
function readObjects(found: readonly snmp.Varbind[]): SystemGroup {
  const entries = Object.entries(OBJECTS).flatMap(([name, oid]) => {
    const value: unknown = found.find((each) => each.oid === oid)?.value
    const text = (Buffer.isBuffer(value) || typeof value === 'string' ? String(value) : '')
      .replaceAll(/[\0\s]+/g, ' ')
      .trim()
      .slice(0, MAX_TEXT)
    const isUsable = text !== '' && !/[\p{C}\uFFFD]/u.test(text)
    return isUsable && (name !== 'OBJECT_ID' || /^[0-9.]+$/.test(text)) ? [[name, text]] : []
  })
  return Object.fromEntries(entries)
}
