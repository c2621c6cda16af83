import { parser } from '@prometheus-io/lezer-promql'

/** A selector of series in a query. */
export interface Selector {
  readonly metric: string
  /** The matchers with `=`, by label. */
  readonly equal: Readonly<Record<string, string>>
  /** The labels of all matchers. */
  readonly labels: readonly string[]
  /** Whether the query asks for the increase of a counter. */
  readonly isIncrease: boolean
}

/** What a query reads. */
export interface Query {
  readonly selectors: readonly Selector[]
  /** The labels after `by` and in `on`. */
  readonly groupedBy: readonly string[]
}

/** @throws SyntaxError if the query is no PromQL */
export function readQuery(query: string): Query {
  // Grafana replaces the variable.
  const text = query.replaceAll('$__rate_interval', '5m')
  const selectors: {
    metric: string
    equal: Record<string, string>
    labels: string[]
    isIncrease: boolean
  }[] = []
  const groupedBy: string[] = []
  parser.parse(text).iterate({
    enter({ name, from, to, type, node }) {
      if (type.isError) throw new SyntaxError(`at ${from} of ${query}`)
      const part = text.slice(from, to)
      if (name === 'VectorSelector') {
        const isIncrease = /\bincrease\($/.test(text.slice(0, from))
        selectors.push({ metric: '', equal: {}, labels: [], isIncrease })
      }
      const last = selectors.at(-1)
      if (name === 'Identifier' && node.parent?.name === 'VectorSelector' && last !== undefined)
        last.metric = part
      if (name === 'UnquotedLabelMatcher' && last !== undefined) {
        const [, label = '', operator, value = ''] =
          /^(\w+)\s*(=~|!~|!=|=)\s*"(.*)"$/.exec(part) ?? []
        last.labels.push(label)
        if (operator === '=') last.equal[label] = value
      }
      if (name === 'LabelName' && node.parent?.name === 'GroupingLabels') groupedBy.push(part)
    },
  })
  return { selectors, groupedBy }
}

/** The samples of an answer of `/metrics`. */
export function readSamples(
  metrics: string,
): { readonly metric: string; readonly labels: Readonly<Record<string, string>> }[] {
  return [...metrics.matchAll(/^([a-z_]+)(?:\{(.*)\})? \S+$/gm)].map(
    ([, metric = '', text = '']) => ({
      metric,
      labels: Object.fromEntries(
        [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label = '', value]) => [
          label,
          value ?? '',
        ]),
      ),
    }),
  )
}
