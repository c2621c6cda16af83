// The text THIRD-PARTY-NOTICES.txt.

const LINE = '-'.repeat(80)

/**
 * @param {string} what the package or the image
 * @param {readonly import('./parts.mjs').Part[]} parts
 */
export function noticesText(what, parts) {
  const titleOf = ({ name, version }) => (version === undefined ? name : `${name} ${version}`)
  /** @type {Map<string, string[]>} */
  const holders = new Map()
  for (const part of parts)
    for (const text of part.texts) holders.set(text, [...(holders.get(text) ?? []), titleOf(part)])
  return `${[
    `${what} contains software of others.`,
    'The list comes from the files that are in the bundles. Written by scripts/shipped.mjs.',
    '',
    ...parts.map((part) => `${titleOf(part)} (${part.license})${part.url ? ` ${part.url}` : ''}`),
    ...[...holders].flatMap(([text, names]) => ['', LINE, ...names, LINE, '', text]),
  ].join('\n')}\n`
}
