import { AkriError } from '@akrijs/sdk'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fuzz } from '../../../../test/support/fuzz.js'
import {
  encodeAcknowledge as acknowledge,
  encodeFault,
  encodeFindServersOnNetworkResponse,
  encodeFindServersResponse,
  encodeGetEndpointsResponse,
  encodeOpenSecureChannelResponse,
} from '../../test-peers/encode-response.js'
import { BinaryReader } from './binary-reader.js'
import { BinaryWriter } from './binary-writer.js'
import { Conversation } from './conversation.js'
import { findServers, findServersOnNetwork, getEndpoints } from './discovery-services.js'
import { encodeFrame, FrameReader } from './frame.js'
import type { UaTcpLimits } from './limits.js'

const ENDPOINT_URL = 'opc.tcp://127.0.0.1:4840/'
const POLICY_NONE = 'http://opcfoundation.org/UA/SecurityPolicy#None'
const { parameters, timeoutMs } = fuzz({ runs: 2000 })

function converse(
  limits: Partial<UaTcpLimits> = {},
  request: Uint8Array = findServers.encodeRequest(ENDPOINT_URL, 0),
) {
  return new Conversation({ endpointUrl: ENDPOINT_URL, request, now: 0, limits })
}

function opened({
  sequence = 10,
  requestId = 1,
  policy = POLICY_NONE,
  response = encodeOpenSecureChannelResponse(7, 9),
} = {}) {
  const header = new BinaryWriter().uint32(7).string(policy).byteString(null).byteString(null)
  return encodeFrame('OPN', 'F', header.uint32(sequence).uint32(requestId).raw(response).bytes())
}

function chunk(
  part: Uint8Array,
  { mark = 'F' as 'F' | 'C' | 'A', channel = 7, token = 9, sequence = 11, requestId = 2 } = {},
) {
  const header = new BinaryWriter().uint32(channel).uint32(token).uint32(sequence).uint32(requestId)
  return encodeFrame('MSG', mark, header.raw(part).bytes())
}

/** Passes messages of a server to a conversation, and returns what it sent and received. */
function run(conversation: Conversation, messages: readonly Buffer[]) {
  const sent: Buffer[] = [conversation.start()]
  let response: Buffer | undefined
  for (const message of messages) {
    for (const turn of conversation.receive(message)) {
      sent.push(turn.send)
      response ??= turn.response
    }
  }
  return { sent, response }
}

function faultOf(messages: readonly Buffer[], limits: Partial<UaTcpLimits> = {}): unknown {
  try {
    run(converse(limits), messages)
  } catch (error) {
    return error
  }
  return undefined
}

const text = fc.string({ unit: 'binary', maxLength: 40 })
const application = fc.record({
  applicationUri: text,
  productUri: text,
  applicationName: text,
  applicationType: fc.nat(5),
  discoveryUrls: fc.array(text, { maxLength: 4 }),
})
const endpoint = fc.record({
  endpointUrl: text,
  server: application,
  serverCertificate: fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
  securityMode: fc.nat(4),
  securityPolicyUri: text,
  userTokenTypes: fc.array(fc.nat(4), { maxLength: 4 }),
})
const record = fc.record({
  serverName: text,
  discoveryUrl: text,
  serverCapabilities: fc.array(text, { maxLength: 4 }),
})

describe('a conversation', () => {
  it('sends Hello, opens a channel without security, sends a request, and closes it', () => {
    const answer = encodeFindServersResponse([])
    const { sent, response } = run(converse(), [acknowledge(), opened(), chunk(answer)])
    expect(sent.map((bytes) => bytes.toString('latin1', 0, 4))).toEqual([
      'HELF',
      'OPNF',
      'MSGF',
      'CLOF',
    ])
    expect(response).toEqual(answer)
    // Sequence numbers increase by one over OPN, MSG and CLO.
    const [, opening, asking, closing] = sent
    const policyBytes = 4 + POLICY_NONE.length
    expect(opening?.readUInt32LE(8 + 4 + policyBytes + 8)).toBe(1)
    expect(
      [asking, closing].map((bytes) => [8, 12, 16, 20].map((at) => bytes?.readUInt32LE(at))),
    ).toEqual([
      [7, 9, 2, 2],
      [7, 9, 3, 3],
    ])
  })

  it('assembles an answer from chunks, with any split of the bytes', () => {
    const parts = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 })
    fc.assert(
      fc.property(
        fc.array(application, { maxLength: 5 }),
        parts,
        parts,
        (applications, chunkSizes, packetSizes) => {
          const answer = encodeFindServersResponse(applications)
          const chunks = cut(answer, chunkSizes).map((part, index, all) =>
            chunk(part, { mark: index === all.length - 1 ? 'F' : 'C', sequence: 11 + index }),
          )
          const stream = Buffer.concat([acknowledge(), opened(), ...chunks])
          const { response } = run(converse({ chunks: 10_000 }), cut(stream, packetSizes))
          expect(response).toEqual(answer)
          expect(findServers.decodeResponse(answer)).toEqual(applications)
        },
      ),
    )
  })

  it("splits a long request into chunks within the server's limits", () => {
    const request = Buffer.alloc(20_000, 'x')
    const { sent } = run(converse({}, request), [acknowledge(8192), opened()])
    const frames = [...new FrameReader({ chunkBytes: 8192 }).push(sent[2] ?? Buffer.alloc(0))]
    expect(frames.map(({ type, mark }) => type + mark)).toEqual(['MSGC', 'MSGC', 'MSGF'])
    expect(Buffer.concat(frames.map(({ body }) => body.subarray(16)))).toEqual(request)
    expect(frames.map(({ body }) => body.readUInt32LE(8))).toEqual([2, 3, 4])
    for (const hello of [acknowledge(8192, 19_999), acknowledge(8192, 0, 2)]) {
      expect(() => run(converse({}, request), [hello, opened()])).toThrow(
        expect.objectContaining({ fault: 'request-too-large' }),
      )
    }
  })

  it('accepts a sequence number that wrapped around', () => {
    const answer = encodeFindServersResponse([])
    const messages = [
      acknowledge(),
      opened({ sequence: 0xffff_ffff }),
      chunk(answer, { sequence: 1 }),
    ]
    expect(run(converse(), messages).response).toEqual(answer)
  })

  it('ignores bytes after its answer', () => {
    const conversation = converse()
    const answer = encodeFindServersResponse([])
    run(conversation, [acknowledge(), opened(), chunk(answer)])
    expect([...conversation.receive(Buffer.from('whatever'))]).toEqual([])
  })

  it.each<[string, Buffer[], Partial<UaTcpLimits>?]>([
    ['not-ua-tcp', [Buffer.from('HTTP/1.1 400 Bad Request')]],
    ['not-ua-tcp', [acknowledge(), Buffer.from('OPNX')]],
    ['not-ua-tcp', [acknowledge(), opened(), Buffer.from('MSG\0')]],
    ['not-ua-tcp', [Buffer.from('RHE')]],
    ['wrong-length', [Buffer.from('ACKF\x07\0\0\0', 'latin1')]],
    ['wrong-length', [encodeFrame('ACK', 'F', Buffer.alloc(3))]],
    ['wrong-length', [acknowledge(100)]],
    [
      'wrong-length',
      [acknowledge(), encodeFrame('OPN', 'F', Buffer.from('07000000ffffff7f', 'hex'))],
    ],
    [
      'negative-length',
      [acknowledge(), encodeFrame('OPN', 'F', Buffer.from('07000000feffffff', 'hex'))],
    ],
    ['chunk-too-large', [Buffer.from('ACKF\xff\xff\xff\xff', 'latin1')]],
    ['chunk-too-large', [acknowledge(), opened(), chunk(Buffer.alloc(9000))], { chunkBytes: 8192 }],
    [
      'message-too-large',
      [acknowledge(), opened(), chunk(Buffer.alloc(2000))],
      { messageBytes: 1000 },
    ],
    [
      'too-many-chunks',
      [
        acknowledge(),
        opened(),
        ...Array.from({ length: 9 }, (_, n) =>
          chunk(Buffer.alloc(0), { mark: 'C', sequence: 11 + n }),
        ),
      ],
      { chunks: 8 },
    ],
    ['wrong-sequence-number', [acknowledge(), opened(), chunk(Buffer.alloc(0), { sequence: 12 })]],
    [
      'wrong-sequence-number',
      [acknowledge(), opened({ sequence: 1000 }), chunk(Buffer.alloc(0), { sequence: 1 })],
    ],
    ['wrong-request', [acknowledge(), opened({ requestId: 5 })]],
    ['wrong-request', [acknowledge(), opened(), chunk(Buffer.alloc(0), { requestId: 1 })]],
    ['wrong-channel', [acknowledge(), opened(), chunk(Buffer.alloc(0), { channel: 8 })]],
    ['wrong-channel', [acknowledge(), opened(), chunk(Buffer.alloc(0), { token: 8 })]],
    ['unexpected-message', [opened()]],
    ['unexpected-message', [acknowledge(), acknowledge()]],
    ['unexpected-message', [acknowledge(), chunk(Buffer.alloc(0))]],
    ['unexpected-message', [acknowledge(), encodeFrame('OPN', 'C', Buffer.alloc(20))]],
    ['unexpected-message', [acknowledge(), opened({ policy: `${POLICY_NONE}Not` })]],
    ['unexpected-message', [acknowledge(), opened({ response: encodeFindServersResponse([]) })]],
  ])('ends with the right fault if a server breaks a rule: %s', (fault, messages, limits) => {
    expect(faultOf(messages, limits)).toMatchObject({ code: 'AKRI_ERR_OPCUA_PROTOCOL', fault })
  })

  it.each(['\0', 'C', 'x'])('ignores the reserved byte of ACK and ERR: %j', (reserved) => {
    const withReserved = (message: Buffer) => {
      message.write(reserved, 3, 'latin1')
      return message
    }
    const { response } = run(converse(), [
      withReserved(acknowledge()),
      opened(),
      chunk(encodeFindServersResponse([])),
    ])
    expect(response).toBeDefined()
    const body = new BinaryWriter().uint32(0x8083_0000).string(null).bytes()
    expect(faultOf([withReserved(encodeFrame('ERR', 'F', body))])).toMatchObject({
      code: 'AKRI_ERR_OPCUA_SERVICE',
    })
  })

  it('reports the error of a server', () => {
    const refusal = encodeFrame(
      'ERR',
      'F',
      new BinaryWriter().uint32(0x8083_0000).string('no such endpoint').bytes(),
    )
    expect(faultOf([refusal])).toMatchObject({
      code: 'AKRI_ERR_OPCUA_SERVICE',
      statusCode: 0x8083_0000,
      message:
        'the server refused the request: BadTcpEndpointUrlInvalid (0x80830000), "no such endpoint"',
    })
    const aborted = chunk(new BinaryWriter().uint32(0x80b9_0000).string(null).bytes(), {
      mark: 'A',
    })
    expect(faultOf([acknowledge(), opened(), aborted])).toMatchObject({
      message: 'the server aborted its response: BadResponseTooLarge (0x80b90000)',
    })
    expect(faultOf([acknowledge(), opened({ response: encodeFault(0x8055_0000) })])).toMatchObject({
      message: 'the server answered OpenSecureChannel with BadSecurityPolicyRejected (0x80550000)',
    })
  })

  it(
    'returns an answer or throws its own error, for any bytes',
    () => {
      const valid = Buffer.concat([acknowledge(), opened(), chunk(encodeFindServersResponse([]))])
      const changes = fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 6 })
      fc.assert(
        fc.property(
          changes,
          fc.uint8Array({ maxLength: 30 }),
          fc.nat(valid.length),
          (changed, more, until) => {
            const bytes = Buffer.from(valid)
            for (const [at, value] of changed) bytes[at] = value
            const error = faultOf([
              Buffer.concat([bytes.subarray(0, until), more]),
              bytes.subarray(until),
            ])
            expect(error === undefined || AkriError.is(error)).toBe(true)
          },
        ),
        parameters,
      )
    },
    timeoutMs,
  )
})

describe('responses', () => {
  it('survive a round trip', () => {
    fc.assert(
      fc.property(
        fc.array(endpoint, { maxLength: 4 }),
        fc.array(record, { maxLength: 4 }),
        (endpoints, records) => {
          expect(getEndpoints.decodeResponse(encodeGetEndpointsResponse(endpoints))).toEqual(
            endpoints,
          )
          expect(
            findServersOnNetwork.decodeResponse(encodeFindServersOnNetworkResponse(records)),
          ).toEqual(records)
        },
      ),
    )
  })

  it.each([
    ['too-many-elements', encodeFindServersResponse([]).subarray(0, -4), '01000010'],
    ['wrong-length', encodeFindServersResponse([]).subarray(0, -4), 'd0070000'],
    ['wrong-length', encodeFindServersResponse([]).subarray(0, -4), '01000000ff'],
    ['wrong-length', encodeFindServersResponse([]).subarray(0, -4), '01000000ffffff7f'],
    ['negative-length', encodeFindServersResponse([]).subarray(0, -4), '80ffffff'],
    ['negative-length', encodeFindServersResponse([]).subarray(0, -4), '0100000000000080'],
    ['unexpected-message', encodeGetEndpointsResponse([]), ''],
    ['unknown-encoding', Buffer.alloc(0), '060000'],
    ['wrong-length', Buffer.alloc(0), ''],
  ])('are refused for their fault: %s', (fault, beginning, rest) => {
    const response = Buffer.concat([beginning, Buffer.from(rest, 'hex')])
    expect(() => findServers.decodeResponse(response)).toThrow(expect.objectContaining({ fault }))
  })

  it('may have diagnostics and an additional header, which are skipped', () => {
    const header = new BinaryWriter().nodeId(425).dateTime(0).uint32(1).uint32(0)
    // All fields, with a nested DiagnosticInfo.
    header.uint8(0x7f).uint32(1).uint32(2).uint32(3).uint32(4).string('more').uint32(5).uint8(0x00)
    header.array(['a', 'b'], (entry) => header.string(entry))
    header.uint8(0x03).uint16(1).string('type').uint8(0x01).byteString(Buffer.alloc(5))
    expect(findServers.decodeResponse(header.array([], String).bytes())).toEqual([])
    const deep = new BinaryWriter()
      .nodeId(425)
      .dateTime(0)
      .uint32(1)
      .uint32(0)
      .raw(Buffer.alloc(20, 0x40))
    expect(() => findServers.decodeResponse(deep.bytes())).toThrow(
      expect.objectContaining({ fault: 'nested-too-deeply' }),
    )
  })

  it(
    'are read or refused with an own error, for any bytes',
    () => {
      const decoders = [findServers, getEndpoints, findServersOnNetwork]
      fc.assert(
        fc.property(
          fc.array(endpoint, { maxLength: 3 }),
          fc.array(application, { maxLength: 3 }),
          fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 8 }),
          fc.nat(),
          (endpoints, applications, changed, cutAt) => {
            for (const bytes of [
              encodeGetEndpointsResponse(endpoints),
              encodeFindServersResponse(applications),
            ]) {
              for (const [at, value] of changed) bytes[at % bytes.length] = value
              for (const { decodeResponse } of decoders) {
                for (const part of [bytes, bytes.subarray(0, cutAt % bytes.length)]) {
                  try {
                    decodeResponse(part)
                  } catch (error) {
                    expect(AkriError.is(error)).toBe(true)
                  }
                }
              }
            }
          },
        ),
        parameters,
      )
    },
    timeoutMs,
  )
})

describe('built-in types', () => {
  it.each([
    ['0007', 7],
    ['01000701', 263],
    ['01010700', undefined],
    ['02000078563412', 0x12345678],
    ['0301000100000061', undefined],
    [`0400 00${'00'.repeat(16)}`.replace(' ', ''), undefined],
    ['05000002000000aabb', undefined],
  ])('include NodeId %s, which is read to its end', (hex, id) => {
    const reader = new BinaryReader(Buffer.from(hex, 'hex'))
    expect(reader.nodeId()).toBe(id)
    expect(reader.remaining).toBe(0)
  })

  it('include times with a precision of a millisecond', () => {
    const ms = Date.UTC(2031, 1, 2, 3, 4, 5, 678)
    expect(new BinaryReader(new BinaryWriter().dateTime(ms).bytes()).dateTime()).toBe(ms)
    expect(new BinaryReader(Buffer.alloc(8, 0xff)).dateTime()).toBeLessThan(0)
  })

  it('include null texts and arrays, which are read as empty', () => {
    const reader = new BinaryReader(Buffer.from('ffffffffffffffff00', 'hex'))
    expect([reader.string(), reader.array(() => reader.uint8()), reader.localizedText()]).toEqual([
      '',
      [],
      '',
    ])
  })
})

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const parts: Buffer[] = []
  for (let at = 0, index = 0; at < bytes.length; index++) {
    const size = sizes[index % sizes.length] ?? 1
    parts.push(bytes.subarray(at, at + size))
    at += size
  }
  return parts
}
