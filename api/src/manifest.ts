import { excess, fieldOf, nearest, shorten, valueAt } from '@akrijs/runtime'
import { boolYaml11Tag, CORE_SCHEMA, loadAll, mergeTag, YAMLException } from 'js-yaml'
import {
  type ConfigurationManifest,
  type Problem,
  parseConfiguration,
} from './configuration-schema.js'
import { GROUP } from './names.js'
import type { Place } from './places/text-places.js'
import { READABLE_FROM_ANNOTATION } from './readable-from.js'

/** The values of a Secret or a ConfigMap, as bytes by key. */
export interface KeyedData {
  readonly kind: 'Secret' | 'ConfigMap'
  readonly name: string
  readonly namespace: string
  /** The annotation with the other namespaces that may read the object. @default none */
  readonly readableFrom?: string
  readonly data: ReadonlyMap<string, Uint8Array>
}

export interface Manifest {
  /** The number of the document in the file, from 1. */
  readonly document: number
  /** The path of the object in its document, as a prefix of paths: that of an item of a List. */
  readonly at: string
  readonly content:
    | { readonly kind: 'Configuration'; readonly configuration: ConfigurationManifest }
    | { readonly kind: 'Data'; readonly data: KeyedData }
}

export interface ManifestProblem extends Problem {
  readonly file: string
  /** The number of the document in the file, from 1; 0 if the file cannot be parsed. */
  readonly document: number
  /** The place in the file; parseManifests knows only that of a syntax error. */
  readonly place?: Place | undefined
}

/** An object of a file, valid or not. */
export interface ManifestObject extends Pick<Manifest, 'document' | 'at'> {
  readonly object: unknown
}

export interface Manifests {
  readonly manifests: readonly Manifest[]
  readonly problems: readonly ManifestProblem[]
  readonly configurations: readonly ManifestObject[]
  /** Objects that are none of Akri, such as a Deployment, and are left out. @default none */
  readonly foreign?: readonly ManifestObject[]
}

/** The largest file of manifests, in bytes. */
export const MAX_MANIFEST_BYTES = 4 * 1024 * 1024

const KINDS = ['Configuration', 'Secret', 'ConfigMap'] as const

/**
 * Reads the documents of one file: Configurations, and the Secrets and ConfigMaps that they refer
 * to. Files of a deployment also have objects of other groups of the API. Never throws.
 */
export function parseManifests(text: string, file: string): Manifests {
  const problems: ManifestProblem[] = []
  const manifests: Manifest[] = []
  const configurations: ManifestObject[] = []
  const foreign: ManifestObject[] = []
  const refuse = (document: number, path: string, message: string) =>
    problems.push({ file, document, path, message })
  const documents = documentsIn(text)
  if ('message' in documents) {
    problems.push({ file, document: 0, path: '', ...documents })
    return { manifests, problems, configurations, foreign }
  }
  for (const item of documents.values.flatMap(itemsOf)) {
    const { document, at, object } = item
    if (object === null || object === undefined) continue
    const kind = fieldOf(object, 'kind')
    if (isForeign(object)) {
      foreign.push(item)
    } else if (kind === 'Configuration') {
      configurations.push(item)
      const parsed = parseConfiguration(object)
      if (parsed.ok)
        manifests.push({
          document,
          at,
          content: { kind: 'Configuration', configuration: parsed.configuration },
        })
      else
        for (const problem of parsed.problems) refuse(document, at + problem.path, problem.message)
    } else if (kind === 'Secret' || kind === 'ConfigMap') {
      const data = readData(kind, object, (path, message) => refuse(document, at + path, message))
      if (data !== undefined) manifests.push({ document, at, content: { kind: 'Data', data } })
    } else {
      refuse(
        document,
        `${at}kind`,
        `it is ${kind === undefined ? 'missing' : shorten(kind)}; Configuration, Secret and ` +
          'ConfigMap are used here',
      )
    }
  }
  return { manifests, problems, configurations, foreign }
}

/** Whether an object is not meant for Akri: neither its group nor its kind is a misspelling. */
function isForeign(object: unknown): boolean {
  const [apiVersion, kind] = [fieldOf(object, 'apiVersion'), fieldOf(object, 'kind')]
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') return false
  const group = /^(.*)\/[^/]*$/.exec(apiVersion)?.[1] ?? ''
  if (nearest(group, [GROUP]) !== undefined) return false
  // Of serving.knative.dev, for example.
  if (kind === 'Configuration') return group.includes('.')
  return nearest(kind, KINDS, 2) === undefined
}

/** As kubectl reads YAML: `<<` merges a mapping, and `yes` and `on` are true. */
const KUBECTL_SCHEMA = CORE_SCHEMA.withTags(mergeTag, boolYaml11Tag)

type Documents =
  | { readonly values: readonly unknown[] }
  | Pick<ManifestProblem, 'message' | 'place'>

function documentsIn(text: string): Documents {
  if (Buffer.byteLength(text) > MAX_MANIFEST_BYTES)
    return { message: `the file has more than ${MAX_MANIFEST_BYTES} bytes` }
  try {
    const values = loadAll(text, { schema: KUBECTL_SCHEMA })
    // Before any other check: an alias of a few bytes may stand for a large value, or for itself.
    const tooMuch = excess(values)
    return tooMuch === undefined ? { values } : { message: tooMuch }
  } catch (error) {
    if (!(error instanceof YAMLException)) return { message: `it is not YAML: ${String(error)}` }
    const { reason, mark } = error
    if (!mark) return { message: `it is not YAML: ${reason}` }
    // A bracket or a quotation mark that is not closed: the error is in the first line after it.
    const last = reason === 'deficient indentation' ? mark.line - 1 : mark.line
    return {
      message: `it is not YAML: ${reason}${forgottenBar(text, last)}`,
      place: { line: mark.line + 1, column: mark.column + 1 },
    }
  }
}

/** The most lines of details above a syntax error in them. */
const MAX_LINES_ABOVE = 100

/**
 * The hint for a syntax error in what is meant as the text of `discoveryDetails`.
 * @param line the last line that the error can be in, from 0
 */
function forgottenBar(text: string, line: number): string {
  const lines = text
    .split('\n', line + 1)
    .slice(-MAX_LINES_ABOVE)
    .reverse()
  let indent = Number.POSITIVE_INFINITY
  for (const above of lines) {
    const found = /^[ -]*/.exec(above)?.[0].length ?? 0
    if (found >= indent || found >= above.trimEnd().length) continue
    indent = found
    const value = /^[ -]*discoveryDetails:(.*)/.exec(above)?.[1]?.trim()
    if (value !== undefined)
      return /^[|>'"{[&*!]/.test(value)
        ? ''
        : '; write | after discoveryDetails: so that the lines below are a text'
  }
  return ''
}

function itemsOf(content: unknown, index: number): ManifestObject[] {
  const document = index + 1
  const items = fieldOf(content, 'kind') === 'List' ? fieldOf(content, 'items') : undefined
  if (!Array.isArray(items)) return [{ document, at: '', object: content }]
  return items.map((object: unknown, item) => ({ document, at: `items[${item}].`, object }))
}

function readData(
  kind: KeyedData['kind'],
  object: unknown,
  refuse: (path: string, message: string) => void,
): KeyedData | undefined {
  const name = fieldOf(fieldOf(object, 'metadata'), 'name')
  const namespace = fieldOf(fieldOf(object, 'metadata'), 'namespace') ?? 'default'
  if (typeof name !== 'string' || name === '')
    return void refuse('metadata.name', 'it must be a name')
  if (typeof namespace !== 'string') return void refuse('metadata.namespace', 'it must be a name')
  const readableFrom = valueAt(object, 'metadata', 'annotations', READABLE_FROM_ANNOTATION)
  if (readableFrom !== undefined && typeof readableFrom !== 'string')
    return void refuse(
      `metadata.annotations["${READABLE_FROM_ANNOTATION}"]`,
      'it must be a text: namespaces with commas between them, or "*"; it is ' +
        `${shorten(readableFrom)}`,
    )
  const data = new Map<string, Uint8Array>()
  // The later field wins, as in Kubernetes: `stringData` over `data` in a Secret, `data` over
  // `binaryData` in a ConfigMap.
  const fields =
    kind === 'Secret' ? (['data', 'stringData'] as const) : (['binaryData', 'data'] as const)
  for (const field of fields) {
    const encoded = kind === 'Secret' ? field === 'data' : field === 'binaryData'
    for (const [key, value] of Object.entries(fieldOf(object, field) ?? {})) {
      const at = `${field}.${key}`
      // The message never shows the value: it is a secret.
      if (typeof value !== 'string')
        return void refuse(at, `it must be a text, not of type ${typeof value}`)
      if (encoded && !/^[A-Za-z0-9+/]*={0,2}$/.test(value.replace(/\s+/g, '')))
        return void refuse(at, 'it must be base64; write plain text into the other field')
      data.set(key, Buffer.from(value, encoded ? 'base64' : 'utf8'))
    }
  }
  return { kind, name, namespace, ...(readableFrom !== undefined && { readableFrom }), data }
}
