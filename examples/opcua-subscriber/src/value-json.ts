import { DataType, type Variant, VariantArrayType } from 'node-opcua-client'

/** A value of a server, in the JSON encoding of OPC 10000-6, 5.4 (version 1.05). */
export interface JsonValue {
  /** The built-in type, such as `Int64`. */
  readonly type: string
  readonly value: unknown
  /** Of an array with two dimensions or more, whose elements are all in one list. */
  readonly dimensions?: readonly number[]
}

/** The type of a field that is a structure, whose type the reader knows from the outer one. */
const STRUCTURE = 'Structure'

/** No value of the server is lost: `JSON.stringify` alone writes NaN as null, and digits away. */
export function jsonOf(variant: Variant): JsonValue {
  const { dataType, arrayType, value, dimensions } = variant
  const type = DataType[dataType] ?? String(dataType)
  if (arrayType === VariantArrayType.Scalar) return { type, value: scalar(type, value) }
  const list = { type, value: array(type, value) }
  return arrayType === VariantArrayType.Matrix ? { ...list, dimensions: dimensions ?? [] } : list
}

/** The time of a value. The encoding limits it to the years 1 to 9999. */
export function jsonTime(time: Date): string {
  const year = time.getUTCFullYear()
  // The binary encoding starts at 1601, which stands for "no time".
  if (Number.isNaN(year) || time.getTime() <= Date.UTC(1601, 0, 1)) return '0001-01-01T00:00:00Z'
  return year > 9999 ? '9999-12-31T23:59:59Z' : time.toISOString()
}

function array(type: string, value: unknown): unknown {
  return isIterable(value) ? Array.from(value, (element) => scalar(type, element)) : null
}

function scalar(type: string, value: unknown): unknown {
  if (value === null || value === undefined) return null
  switch (type) {
    case 'Int64':
    case 'UInt64':
      return isPair(value) ? integer64(type, value) : String(value)
    case 'Variant':
      return isVariant(value) ? nested(value) : null
    case 'DataValue':
      return isRecord(value) ? dataValue(value) : null
    case 'ExpandedNodeId':
    case 'NodeId':
      return nodeId(value)
    case 'QualifiedName':
      return isRecord(value) ? qualifiedName(value) : null
    case 'LocalizedText':
      return isRecord(value) ? { Locale: value.locale ?? null, Text: value.text ?? null } : null
    case 'StatusCode':
      return isRecord(value) ? statusCode(value) : null
    case 'ExtensionObject':
      return isRecord(value) ? extensionObject(value) : null
    case STRUCTURE:
      return isRecord(value) ? structure(value) : null
    default:
      return plain(value)
  }
}

/** Booleans, numbers, texts, times and bytes, by their form in memory. */
function plain(value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Date) return jsonTime(value)
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (isIterable(value) && typeof value !== 'string') return Array.from(value, plain)
  return value
}

/** The library has a 64-bit integer as its high and its low half. */
function integer64(type: string, [high, low]: readonly [number, number]): string {
  const bits = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
  return String(type === 'Int64' ? BigInt.asIntN(64, bits) : bits)
}

function nested(variant: Variant): object {
  const { value, dimensions } = jsonOf(variant)
  return {
    UaType: variant.dataType,
    Value: value,
    ...(dimensions !== undefined && { Dimensions: dimensions }),
  }
}

function dataValue(data: Fields): object {
  return {
    ...(isVariant(data.value) && nested(data.value)),
    ...(isRecord(data.statusCode) && { Status: statusCode(data.statusCode) }),
    ...(data.sourceTimestamp instanceof Date && {
      SourceTimestamp: jsonTime(data.sourceTimestamp),
    }),
    ...(data.serverTimestamp instanceof Date && {
      ServerTimestamp: jsonTime(data.serverTimestamp),
    }),
  }
}

function nodeId(value: unknown): string {
  const { serverIndex, namespaceUri } = isRecord(value) ? value : {}
  const text = String(value)
  const [local = text] =
    /^(ns=\d+;)?[isgb]=.*?(?=;namespaceUri:|;serverIndex:|$)/is.exec(text) ?? []
  return [
    ...(typeof serverIndex === 'number' && serverIndex > 0 ? [`svr=${serverIndex};`] : []),
    ...(typeof namespaceUri === 'string' && namespaceUri !== ''
      ? [`nsu=${namespaceUri};`, local.replace(/^ns=\d+;/i, '')]
      : [local.replace(/^ns=0;/i, '')]),
  ].join('')
}

function qualifiedName({ namespaceIndex, name }: Fields): unknown {
  return Number(namespaceIndex) > 0 ? `${namespaceIndex}:${name}` : (name ?? null)
}

function statusCode({ value, name }: Fields): object {
  return value === 0 ? {} : { Code: value, Symbol: name }
}

/** A structure of a type that the client does not have stays as bytes. */
function extensionObject(object: Fields): object {
  const { schema, nodeId: type, buffer } = object
  if (buffer instanceof Uint8Array)
    return { UaTypeId: nodeId(type), UaEncoding: 1, UaBody: plain(buffer) }
  const dataType = isRecord(schema) ? schema.dataTypeNodeId : undefined
  return { ...(dataType !== undefined && { UaTypeId: nodeId(dataType) }), ...structure(object) }
}

function structure(object: Fields): Fields {
  const fields = isRecord(object.schema) ? fieldsOf(object.schema) : []
  return Object.fromEntries(
    fields.map((field) => {
      const { name, originalName = name, isArray } = field
      const value = object[String(name)]
      const type = builtInType(field)
      return [originalName, isArray === true ? array(type, value) : scalar(type, value)]
    }),
  )
}

/** The fields of a structure, those of its base types first. */
function fieldsOf(schema: Fields): Fields[] {
  const base = schema.getBaseSchema
  const inherited: unknown = typeof base === 'function' ? base.call(schema) : undefined
  const fields = Array.isArray(schema.fields) ? schema.fields.filter(isRecord) : []
  return [...(isRecord(inherited) ? fieldsOf(inherited) : []), ...fields]
}

/** Such as UInt64 for a field of the type VersionTime, which is derived from it. */
function builtInType({ category, fieldType, basicDataType, schema }: Fields): string {
  if (category === 'complex' && fieldType !== 'ExtensionObject') return STRUCTURE
  const names = [
    fieldType,
    typeof basicDataType === 'number' ? DataType[basicDataType] : undefined,
    isRecord(schema) ? schema.subType : undefined,
  ]
  return names.map(String).find((name) => name in DataType) ?? ''
}

type Fields = Readonly<Record<string, unknown>>

function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return isRecord(value) && Symbol.iterator in value
}

function isPair(value: unknown): value is readonly [number, number] {
  return isIterable(value) && Array.from(value).length === 2
}

function isVariant(value: unknown): value is Variant {
  return isRecord(value) && 'dataType' in value && 'arrayType' in value
}
