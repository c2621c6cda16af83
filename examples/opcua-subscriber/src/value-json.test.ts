import {
  BinaryStream,
  BuildInfo,
  coerceNodeId,
  DataType,
  DataValue,
  decodeVariant,
  ExpandedNodeId,
  encodeVariant,
  NodeIdType,
  QualifiedName,
  ServerStatusDataType,
  StatusCodes,
  Variant,
  VariantArrayType,
  type VariantOptions,
} from 'node-opcua'
import { describe, expect, it } from 'vitest'
import { jsonOf, jsonTime } from './value-json.js'

/** As a consumer of the lines reads it. The value has come over the network. */
function read(options: VariantOptions): unknown {
  const stream = new BinaryStream(4096)
  encodeVariant(new Variant({ arrayType: 'Scalar', ...options }), stream)
  stream.rewind()
  return JSON.parse(JSON.stringify(jsonOf(decodeVariant(stream))))
}

const nodeId = coerceNodeId('ns=2;s=Level')

describe('the JSON of a value', () => {
  it.each<[string, VariantOptions, unknown]>([
    ['nothing', {}, { type: 'Null', value: null }],
    ['true', { dataType: 'Boolean', value: true }, { type: 'Boolean', value: true }],
    ['false', { dataType: 'Boolean', value: false }, { type: 'Boolean', value: false }],
    ['a number', { dataType: 'Double', value: 21.5 }, { type: 'Double', value: 21.5 }],
    ['NaN', { dataType: 'Double', value: Number.NaN }, { type: 'Double', value: 'NaN' }],
    [
      'infinity',
      { dataType: 'Float', value: Number.NEGATIVE_INFINITY },
      { type: 'Float', value: '-Infinity' },
    ],
    [
      'Int64',
      { dataType: 'Int64', value: [0xffe0_0000, 1] },
      { type: 'Int64', value: '-9007199254740991' },
    ],
    [
      'the least Int64',
      { dataType: 'Int64', value: [0x8000_0000, 0] },
      { type: 'Int64', value: '-9223372036854775808' },
    ],
    [
      'UInt64',
      { dataType: 'UInt64', value: [0xffff_ffff, 0xffff_ffff] },
      { type: 'UInt64', value: '18446744073709551615' },
    ],
    ['a text', { dataType: 'String', value: 'Öl\u0000' }, { type: 'String', value: 'Öl\u0000' }],
    ['no text', { dataType: 'String', value: null }, { type: 'String', value: null }],
    [
      'a time',
      { dataType: 'DateTime', value: new Date('2026-02-03T04:05:06.789Z') },
      { type: 'DateTime', value: '2026-02-03T04:05:06.789Z' },
    ],
    [
      'bytes',
      { dataType: 'ByteString', value: Buffer.from([0, 255, 7]) },
      { type: 'ByteString', value: 'AP8H' },
    ],
    [
      'a status',
      { dataType: 'StatusCode', value: StatusCodes.BadSensorFailure },
      { type: 'StatusCode', value: { Code: 0x808c_0000, Symbol: 'BadSensorFailure' } },
    ],
    [
      'a good status',
      { dataType: 'StatusCode', value: StatusCodes.Good },
      { type: 'StatusCode', value: {} },
    ],
    [
      'a text of a language',
      { dataType: 'LocalizedText', value: { locale: 'de', text: 'Öl' } },
      { type: 'LocalizedText', value: { Locale: 'de', Text: 'Öl' } },
    ],
    [
      'a qualified name',
      { dataType: 'QualifiedName', value: new QualifiedName({ namespaceIndex: 2, name: 'Oil' }) },
      { type: 'QualifiedName', value: '2:Oil' },
    ],
    ['a node id', { dataType: 'NodeId', value: nodeId }, { type: 'NodeId', value: 'ns=2;s=Level' }],
    [
      'a node id of namespace 0',
      { dataType: 'NodeId', value: coerceNodeId('i=85') },
      { type: 'NodeId', value: 'i=85' },
    ],
    [
      'a node id of another server',
      {
        dataType: 'ExpandedNodeId',
        value: new ExpandedNodeId(NodeIdType.STRING, 'Level', 0, 'urn:mixer', 3),
      },
      { type: 'ExpandedNodeId', value: 'svr=3;nsu=urn:mixer;s=Level' },
    ],
    [
      'a list of numbers',
      { dataType: 'Float', arrayType: 'Array', value: [1, Number.NaN, 0.5] },
      { type: 'Float', value: [1, 'NaN', 0.5] },
    ],
    [
      'a list of Int64',
      {
        dataType: 'Int64',
        arrayType: 'Array',
        value: [
          [0, 1],
          [0xffff_ffff, 0xffff_ffff],
        ],
      },
      { type: 'Int64', value: ['1', '-1'] },
    ],
    [
      'a list of bytes',
      { dataType: 'Byte', arrayType: 'Array', value: [1, 255] },
      { type: 'Byte', value: [1, 255] },
    ],
    [
      'a list of texts',
      { dataType: 'String', arrayType: 'Array', value: ['a', null] },
      { type: 'String', value: ['a', null] },
    ],
    [
      'an empty list',
      { dataType: 'Boolean', arrayType: 'Array', value: [] },
      { type: 'Boolean', value: [] },
    ],
    [
      'a matrix',
      {
        dataType: 'Int32',
        arrayType: VariantArrayType.Matrix,
        dimensions: [2, 3],
        value: [1, 2, 3, 4, 5, 6],
      },
      { type: 'Int32', value: [1, 2, 3, 4, 5, 6], dimensions: [2, 3] },
    ],
    [
      'a list of variants',
      {
        dataType: 'Variant',
        arrayType: 'Array',
        value: [new Variant({ dataType: 'Double', value: Number.NaN })],
      },
      { type: 'Variant', value: [{ UaType: DataType.Double, Value: 'NaN' }] },
    ],
    [
      'a data value',
      {
        dataType: 'DataValue',
        value: new DataValue({
          value: { dataType: 'UInt64', arrayType: 'Scalar', value: [0, 7] },
          statusCode: StatusCodes.BadSensorFailure,
          sourceTimestamp: new Date(0),
        }),
      },
      {
        type: 'DataValue',
        value: {
          UaType: DataType.UInt64,
          Value: '7',
          Status: { Code: 0x808c_0000, Symbol: 'BadSensorFailure' },
          SourceTimestamp: '1970-01-01T00:00:00.000Z',
        },
      },
    ],
    [
      'a structure',
      {
        dataType: 'ExtensionObject',
        value: new ServerStatusDataType({
          startTime: new Date(0),
          currentTime: new Date(1000),
          state: 2,
          buildInfo: new BuildInfo({ productName: 'Mixer', buildDate: new Date(0) }),
          secondsTillShutdown: 5,
        }),
      },
      {
        type: 'ExtensionObject',
        value: {
          UaTypeId: 'i=862',
          StartTime: '1970-01-01T00:00:00.000Z',
          CurrentTime: '1970-01-01T00:00:01.000Z',
          State: 2,
          BuildInfo: expect.objectContaining({
            ProductName: 'Mixer',
            BuildDate: '1970-01-01T00:00:00.000Z',
          }),
          SecondsTillShutdown: 5,
          ShutdownReason: expect.anything(),
        },
      },
    ],
  ])('keeps %s', (_what, options, expected) => expect(read(options)).toEqual(expected))

  it('keeps the bytes of a structure whose type the client does not have', () => {
    const type = Buffer.concat([Buffer.from([3, 2, 0, 5, 0, 0, 0]), Buffer.from('Level')])
    const body = Buffer.from([1, 3, 0, 0, 0, 1, 2, 3])
    const bytes = Buffer.concat([Buffer.from([DataType.ExtensionObject]), type, body])
    expect(jsonOf(decodeVariant(new BinaryStream(bytes)))).toEqual({
      type: 'ExtensionObject',
      value: { UaTypeId: 'ns=2;s=Level', UaEncoding: 1, UaBody: 'AQID' },
    })
  })

  it('limits a time to the years of the encoding', () => {
    expect(jsonTime(new Date(Date.UTC(1601, 0, 1)))).toBe('0001-01-01T00:00:00Z')
    expect(jsonTime(new Date(Number.NaN))).toBe('0001-01-01T00:00:00Z')
    expect(jsonTime(new Date(8.64e15))).toBe('9999-12-31T23:59:59Z')
  })
})
