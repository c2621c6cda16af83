import { chartYaml, type KubernetesObject, render, type Values } from './chart.js'

/** New objects of this kind are shown with their content, all others by their names. */
const SHOWN = 'NetworkPolicy'

/**
 * What values change in the objects of other values, or why the chart refuses the values: a line
 * for each field, with its new value in each object.
 */
export async function changesOf(
  others: readonly KubernetesObject[],
  values: Values,
): Promise<string[]> {
  const before = byName(others)
  const after = await render(values).then(byName, (error: unknown) => refusalOf(error))
  if (Array.isArray(after)) return after
  const fields = new Map<string, Map<string, string[]>>()
  for (const name of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const [old, now] = [before.get(name), after.get(name)]
    const isShown = (old && now) !== undefined || now?.kind === SHOWN
    const changes = isShown
      ? differences(contentOf(old), contentOf(now))
      : [['object', now === undefined ? 'none' : 'new'] as const]
    const object = name.replace(
      /^(Dae|Dep)\w+ |akri-|-(daemonset|deployment|configuration|discovery)/g,
      '',
    )
    for (const [field, value] of changes) {
      const objects = fields.get(field) ?? new Map<string, string[]>()
      fields.set(field, objects.set(value, [...(objects.get(value) ?? []), object]))
    }
  }
  return [...fields].map(([field, objects]) =>
    [...objects].reduce(
      (line, [value, names]) => `${line} ${value} (${names.join()})`,
      `${field}:`,
    ),
  )
}

function byName(objects: readonly KubernetesObject[]): Map<string, KubernetesObject> {
  return new Map(objects.map((object) => [`${object.kind} ${object.metadata.name}`, object]))
}

/** The lines of the chart, without Helm's words around them. */
function refusalOf(error: unknown): string[] {
  const lines = String(error).match(/^[\w.]+: .*/gm) ?? []
  return lines.filter((line) => !line.startsWith('Error: ')).map((line) => `refused: ${line}`)
}

function contentOf(object: KubernetesObject | undefined): unknown {
  return object && { ...Object(object.spec), annotations: object.metadata.annotations }
}

/** Each different field, with its new value. An entry of a list stands under its name. */
function differences(
  before: unknown,
  after: unknown,
  path: readonly string[] = [],
): (readonly [field: string, value: string])[] {
  const [old, now] = [branchesOf(before), branchesOf(after)]
  // A release changes the version, and nothing else here.
  const value = (JSON.stringify(after) ?? 'none').replaceAll(`:${chartYaml.appVersion}`, ':VERSION')
  if (old === undefined || now === undefined || old.size * now.size === 0)
    return JSON.stringify(before) === JSON.stringify(after) ? [] : [[fieldAt(path), value]]
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((key) =>
    differences(old.get(key), now.get(key), [...path, key]),
  )
}

/** A Pod has one container. */
function fieldAt(path: readonly string[]): string {
  const field = path.join('.').replace('template.spec.', '')
  return field.replace(/^containers\.[^.]+/, 'container') || 'content'
}

function branchesOf(at: unknown): Map<string, unknown> | undefined {
  if (typeof at !== 'object' || at === null) return undefined
  if (!Array.isArray(at)) return new Map(Object.entries(at))
  const names = at.map((entry, index) => String(Reflect.get(Object(entry), 'name') ?? index))
  return new Map(at.map((entry, index) => [names[index] ?? '', entry]))
}
