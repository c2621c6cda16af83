// The JSON Schemas that editors complete and check Configurations with, of cli/schemas.
import { load } from 'js-yaml'

/** The version that most editors know. */
const DRAFT = 'http://json-schema.org/draft-07/schema#'
const PUBLISHED = 'https://unpkg.com/@akrijs/cli/schemas'

/**
 * @param {object} sources
 * @param {string} sources.crd the custom resource of Configurations, as YAML
 * @param {object} sources.types BUNDLED_TYPES of api
 * @param {Record<string, { details: object, example: string }>} sources.handlers by their names in
 * Configurations: the schema of the details, and details as YAML
 * @returns {Record<string, string>} the text of each file
 */
export function jsonSchemas({ crd, types, handlers }) {
  const details = Object.entries(handlers).map(([name, handler]) => ({
    name,
    file: `${name}-details.json`,
    schema: detailsSchema(name, handler.details),
    example: handler.example,
  }))
  return {
    'configuration.json': textOf(configurationSchema(load(crd), types, details)),
    ...Object.fromEntries(details.map(({ file, schema }) => [file, textOf(schema)])),
  }
}

function detailsSchema(name, schema) {
  const { $schema: _, ...rest } = schema['~standard'].jsonSchema.input({ target: 'draft-07' })
  return {
    $schema: DRAFT,
    $id: `${PUBLISHED}/${name}-details.json`,
    title: `discoveryDetails of the handler ${name}`,
    ...rest,
  }
}

function configurationSchema(crd, types, details) {
  const { description, properties } = crd.spec.versions[0].schema.openAPIV3Schema
  const spec = fromOpenApi(properties.spec)
  const handler = spec.properties.discoveryHandler
  const broker = spec.properties.brokerSpec
  const property = handler.properties.discoveryProperties.items
  // The names of the installed handlers are completed; others are as good.
  handler.properties.name = {
    description: handler.properties.name.description,
    anyOf: [{ enum: details.map(({ name }) => name) }, { type: 'string', minLength: 1 }],
  }
  // An editor shows the description at the field itself before that of a branch.
  const { description: general, ...discoveryDetails } = handler.properties.discoveryDetails
  handler.properties.discoveryDetails = discoveryDetails
  handler.allOf = [
    ...details.map((each) => ifName({ const: each.name }, detailsText(each))),
    ifName({ not: { enum: details.map(({ name }) => name) } }, { description: general }),
  ]
  property.properties.name.description =
    'The name of the property: a letter or _, then letters, digits and _.'
  property.properties.value.description = 'The value of the property.'
  property.not = both('value', 'valueFrom')
  property.properties.valueFrom.description = 'The key of a Secret or a ConfigMap with the value.'
  property.properties.valueFrom.minProperties = 1
  property.properties.valueFrom.not = both('secretKeyRef', 'configMapKeyRef')
  for (const [field, root] of [
    ['brokerPodSpec', 'podSpec'],
    ['brokerJobSpec', 'jobSpec'],
    ['brokerDeploymentSpec', 'deploymentSpec'],
  ])
    broker.properties[field] = reference(broker.properties[field], types.roots[root])
  broker.not = {
    anyOf: [
      both('brokerPodSpec', 'brokerJobSpec'),
      both('brokerPodSpec', 'brokerDeploymentSpec'),
      both('brokerJobSpec', 'brokerDeploymentSpec'),
    ],
  }
  for (const field of ['instanceServiceSpec', 'configurationServiceSpec'])
    spec.properties[field] = reference(spec.properties[field], types.roots.serviceSpec)
  return {
    $schema: DRAFT,
    $id: `${PUBLISHED}/configuration.json`,
    title: 'Configuration of akri.js',
    description,
    type: 'object',
    required: ['apiVersion', 'kind', 'metadata', 'spec'],
    additionalProperties: false,
    properties: {
      apiVersion: { const: `${crd.spec.group}/${crd.spec.versions[0].name}` },
      kind: { const: crd.spec.names.kind },
      metadata: metadataSchema(properties.metadata),
      spec,
      status: { description: 'Written by akri.js.', type: ['object', 'null'] },
    },
    definitions: Object.fromEntries([
      ...Object.entries(SCALARS),
      ...Object.entries(types.types).map(([name, fields]) => [
        name,
        objectSchema(fields, name === types.roots.deploymentSpec ? ['selector'] : []),
      ]),
    ]),
  }
}

/** What holds for the details of the handlers with such a name. */
function ifName(name, discoveryDetails) {
  return {
    if: { properties: { name }, required: ['name'] },
    // biome-ignore lint/suspicious/noThenProperty: JSON Schema names it so
    then: { properties: { discoveryDetails } },
  }
}

function metadataSchema({ properties }) {
  const texts = { type: ['object', 'null'], additionalProperties: { type: 'string' } }
  return {
    type: 'object',
    required: ['name'],
    properties: {
      name: {
        description: 'The name of the Configuration. Nodes offer its devices as akri.sh/<name>.',
        type: 'string',
        maxLength: properties.name.maxLength,
        pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$',
      },
      namespace: {
        type: ['string', 'null'],
        maxLength: 63,
        pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
        default: 'default',
      },
      labels: texts,
      annotations: texts,
    },
  }
}

/** JSON Schema sees no fields in a text: the description lists them. */
function detailsText({ name, file, schema, example }) {
  const fields = Object.entries(schema.properties).map(([field, { description = '', ...rest }]) => {
    const isRequired = schema.required?.includes(field)
    const notes = [
      isRequired ? 'Required.' : '',
      rest.enum === undefined ? '' : `Values: ${rest.enum.join(', ')}.`,
      rest.default === undefined ? '' : `Default: ${JSON.stringify(rest.default)}.`,
    ]
    return `- ${field}: ${[description, ...notes].filter(Boolean).join(' ')}`
  })
  const lines = example.trimEnd().split('\n')
  return {
    type: ['string', 'null'],
    description:
      `YAML in a text, after |. A file of details can have the schema ${file}. ` +
      `Fields of the handler ${name}:\n\n${fields.join('\n')}`,
    contentMediaType: 'application/yaml',
    defaultSnippets: [
      {
        label: `details of ${name}`,
        description: 'An example to change',
        // A snippet has $ and } for its places.
        body: `|\n${lines.map((line) => `  ${line.replace(/[$}\\]/g, '\\$&')}`).join('\n')}`,
      },
    ],
  }
}

const KEYWORDS = [
  ...['description', 'enum', 'default', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern'],
  ...['maxItems', 'maxProperties', 'required'],
]

/** akri.js refuses other fields than those of the custom resource. */
function fromOpenApi(schema) {
  const { items, properties, additionalProperties, required = [] } = schema
  const result = {
    ...Object.fromEntries(KEYWORDS.filter((key) => key in schema).map((key) => [key, schema[key]])),
    type: schema['x-kubernetes-int-or-string'] ? ['integer', 'string'] : schema.type,
  }
  if (items !== undefined) result.items = fromOpenApi(items)
  if (properties !== undefined) {
    result.additionalProperties = false
    result.properties = Object.fromEntries(
      Object.entries(properties).map(([name, inner]) => [
        name,
        required.includes(name) ? fromOpenApi(inner) : orNull(fromOpenApi(inner)),
      ]),
    )
  }
  if (additionalProperties !== undefined)
    result.additionalProperties = fromOpenApi(additionalProperties)
  return result
}

/** A null counts as an absent field. */
function orNull(schema) {
  const type = [schema.type, 'null'].flat()
  return schema.enum === undefined
    ? { ...schema, type }
    : { ...schema, type, enum: [...schema.enum, null] }
}

/** The scalars of kubernetes-types.ts. As in the API server, null counts as absent. */
const SCALARS = {
  string: { type: ['string', 'null'] },
  boolean: { type: ['boolean', 'null'] },
  number: { type: ['number', 'null'] },
  int32: { type: ['integer', 'null'], minimum: -(2 ** 31), maximum: 2 ** 31 - 1 },
  int64: { type: ['integer', 'null'] },
  intOrString: { type: ['integer', 'string', 'null'] },
  quantity: {
    type: ['string', 'number', 'null'],
    pattern: '^\\s*[+-]?(\\d+(\\.\\d*)?|\\.\\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\\d+)?\\s*$',
  },
  any: true,
}

/**
 * @param {Record<string, string>} fields see kubernetes-types.ts
 * @param {readonly string[]} filledIn required fields that akri.js fills in
 */
function objectSchema(fields, filledIn) {
  const required = Object.keys(fields).filter((name) => {
    const type = fields[name].replace(/!$/, '')
    // As in the API server, a missing scalar is 0 or empty.
    return type !== fields[name] && !Object.hasOwn(SCALARS, type) && !filledIn.includes(name)
  })
  return {
    type: ['object', 'null'],
    ...(required.length > 0 && { required }),
    additionalProperties: false,
    properties: Object.fromEntries(
      Object.entries(fields).map(([name, type]) => [name, typeSchema(type.replace(/!$/, ''))]),
    ),
  }
}

function typeSchema(type) {
  if (type.startsWith('[]')) return { type: ['array', 'null'], items: typeSchema(type.slice(2)) }
  if (type.startsWith('{}'))
    return { type: ['object', 'null'], additionalProperties: typeSchema(type.slice(2)) }
  return { $ref: `#/definitions/${type}` }
}

/** Both fields have a value. */
function both(...fields) {
  const value = { not: { type: 'null' } }
  return {
    type: 'object',
    required: fields,
    properties: Object.fromEntries(fields.map((field) => [field, value])),
  }
}

/** In draft 7, a description beside a reference counts only in allOf. */
function reference({ description }, name) {
  return { description, allOf: [{ $ref: `#/definitions/${name}` }] }
}

/** Indented, with one line for each definition. */
function textOf({ definitions, ...schema }) {
  const text = JSON.stringify(schema, undefined, 2)
  if (definitions === undefined) return `${text}\n`
  const lines = Object.entries(definitions).map(
    ([name, definition]) => `    ${JSON.stringify(name)}: ${JSON.stringify(definition)}`,
  )
  return `${text.slice(0, -2)},\n  "definitions": {\n${lines.join(',\n')}\n  }\n}\n`
}
