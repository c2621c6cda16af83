import fc from 'fast-check'
import { expect, it } from 'vitest'
import { sourceOffset } from './scalar-offset.js'
import { TextPlaces } from './text-places.js'
import { YamlTree } from './yaml-tree.js'

/** The line and the column of a path. */
function placeOf(text: string, path: string, document = 1): string {
  const { line, column } = new TextPlaces(text).placeOf(new YamlTree(text).offsetOf(document, path))
  return `${line}:${column}`
}

const TEXT = `# a comment
spec:
  rules:
  - name: a
  - { name: b, "dotted.key": [1, 2] }
  empty:
  "quoted": x
  anchored: &rule
    inner: 1
  alias: *rule
---
- one
-
- three: 3
`

it.each([
  ['spec', '2:1'],
  ['spec.rules[0].name', '4:5'],
  ['spec.rules[1].name', '5:7'],
  ['spec.rules[1]["dotted.key"][1]', '5:34'],
  ['spec.rules[1].dotted.key[0]', '5:31'],
  ['spec.empty', '6:3'],
  ['spec.quoted', '7:3'],
  ['spec.alias', '10:3'],
])('finds %s', (path, place) => {
  expect(placeOf(TEXT, path)).toBe(place)
})

it.each([
  ['spec.rules[7].name', 1, '3:3'],
  ['spec.missing.field', 1, '2:1'],
  ['spec.empty.field', 1, '6:3'],
  ['spec.quoted.x', 1, '7:3'],
  ['nothing', 1, '2:1'],
  ['[2].three.x', 2, '14:3'],
  ['nothing', 9, '1:1'],
])('finds the nearest part of %s in document %d', (path, document, place) => {
  expect(placeOf(TEXT, path, document)).toBe(place)
})

it('finds a field of an alias where the field is written', () => {
  expect(placeOf(TEXT, 'spec.alias.inner')).toBe('9:5')
})

it('ends for an alias of itself, and for fields without a name', () => {
  const text = 'a: &a { "": *a, b: *a }\n'
  expect(placeOf(text, 'a.b.b.b.c')).toBe('1:17')
  expect(placeOf(text, `a${'.'.repeat(500)}x`)).toMatch(/^1:/)
})

it.each(['a: 1\r\nb:\r\n  c: 2\r\n', 'a: 1\rb:\r  c: 2\r'])('counts the lines of %j', (text) => {
  expect(placeOf(text, 'b.c')).toBe('3:3')
})

it.each(['', '# nothing\n', '---\n---\n', '- \n- \n'])('has a place in %j', (text) => {
  for (const path of ['', 'a', '[0]', '[1].b']) expect(placeOf(text, path)).toMatch(/^\d+:[1-9]/)
})

/** Lines of details, with blank lines and deeper indentation among them. */
const lines = fc
  .array(fc.constantFrom('a: 1', '  b: "é"', '', '- x y', '    c', "it's"), { minLength: 1 })
  .map((found) => ['first:', ...found, 'last'])

it('finds each character of a block in the file', () => {
  fc.assert(
    fc.property(
      lines,
      fc.integer({ min: 1, max: 8 }),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.constantFrom('|', '|-', '|+'),
      (content, indent, end, header) => {
        const block = content.map((line) => (line === '' ? '' : ' '.repeat(indent) + line))
        const source = ['x: y', `details: ${header}`, ...block, ''].join(end)
        const tree = new YamlTree(source)
        const scalar = tree.scalarAt(1, 'details')
        if (scalar === undefined) throw new TypeError('no text')
        for (const [at, character] of [...tree.text(scalar)].entries())
          if (character !== '\n')
            expect(source[sourceOffset(source, scalar, at) ?? -1]).toBe(character)
      },
    ),
  )
})

it('finds each character of a text in quotes, whose escapes stand for other characters', () => {
  const escapes = ['\\n', '\\"', '\\\\', '\\x41', '\\u00e9', '\\U0001F600', '\\/']
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constantFrom(...escapes), fc.constantFrom('a', 'b', ': '))),
      (parts) => {
        const source = `details: "${parts.join('')}%"`
        const tree = new YamlTree(source)
        const scalar = tree.scalarAt(1, 'details')
        if (scalar === undefined) throw new TypeError('no text')
        const at = tree.text(scalar).indexOf('%')
        expect(source[sourceOffset(source, scalar, at) ?? -1]).toBe('%')
      },
    ),
  )
  const source = "details: 'it''s ''%'''"
  const tree = new YamlTree(source)
  const scalar = tree.scalarAt(1, 'details')
  expect(scalar && sourceOffset(source, scalar, tree.text(scalar).indexOf('%'))).toBe(18)
})

it('knows no place in a text whose lines YAML folds', () => {
  for (const source of ['details: >\n  a\n  b\n', 'details: "a\n  b"\n', 'details: a\n  b\n']) {
    const scalar = new YamlTree(source).scalarAt(1, 'details')
    expect(scalar && sourceOffset(source, scalar, 2)).toBeUndefined()
  }
})
