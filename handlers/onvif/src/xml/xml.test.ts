import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { costOf } from '../../../../test/support/cost.js'
import { fuzz } from '../../../../test/support/fuzz.js'
import { OnvifXmlError } from '../errors.js'
import { escapeXml, parseXml } from './xml.js'

const { parameters, timeoutMs } = fuzz({ runs: 3000 })

const SOAP = 'http://www.w3.org/2003/05/soap-envelope'

describe('XML from the network', () => {
  it('D2 is read by local names and namespaces, with any prefixes', () => {
    for (const [open, close] of [
      [
        `<s:Envelope xmlns:s="${SOAP}"><s:Body><n:A xmlns:n="urn:n">x</n:A></s:Body>`,
        '</s:Envelope>',
      ],
      [`<Envelope xmlns="${SOAP}"><Body><A xmlns="urn:n">x</A></Body>`, '</Envelope>'],
      [
        `<SOAP-ENV:Envelope xmlns:SOAP-ENV='${SOAP}' xmlns:s="urn:n">` +
          '<SOAP-ENV:Body><s:A>x</s:A></SOAP-ENV:Body>',
        '</SOAP-ENV:Envelope >',
      ],
    ]) {
      const root = parseXml(`${open}${close}`)
      expect([
        root.name,
        root.namespace,
        root.find('Body', 'A')?.namespace,
        root.textOf('Body', 'A'),
      ]).toEqual(['Envelope', SOAP, 'urn:n', 'x'])
    }
  })

  it('D2 may have elements with undeclared prefixes', () => {
    const root = parseXml('<a:b><c d="1" e:d="2" e:f="3"/></a:b>')
    expect([root.name, root.namespace, ...(root.find('c')?.attributes ?? [])]).toEqual([
      'b',
      undefined,
      ['d', '1'],
      ['f', '3'],
    ])
  })

  it('keeps texts unchanged, also numbers, dates and leading zeros', () => {
    const text = (xml: string) => parseXml(`<a>${xml}</a>`).text
    expect(text('12345678901234567890')).toBe('12345678901234567890')
    expect(text(' 1.10\n')).toBe('1.10')
    expect(text('0x10')).toBe('0x10')
    expect(text('a<!-- b -->c<![CDATA[<&amp;]]>&lt;&#x41;&#66;&amp;lt;')).toBe('ac<&amp;<AB&lt;')
    expect(text('<b>no</b>')).toBe('')
  })

  it('is read although cameras write what XML does not allow', () => {
    const text = (xml: string) => parseXml(xml).text
    expect(text('<?xml encoding="utf-8" ?><a>b</a>')).toBe('b')
    expect(text('\r\n<?xml version="1.0"?><a>b</a>\0 \0\0')).toBe('b')
    expect(text('<a>b\x01\v</a>')).toBe('b\ufffd\ufffd')
    expect(parseXml('<__proto__><a toString="1"/></__proto__>')).toMatchObject({
      name: '__proto__',
      children: [{ name: 'a', attributes: new Map([['toString', '1']]) }],
    })
  })

  it('finds all children with a name in order, and the first child along a path', () => {
    const root = parseXml('<a><b>1</b><c/><b>2</b></a>')
    expect(root.all('b').map(({ text }) => text)).toEqual(['1', '2'])
    expect([root.textOf('b'), root.find('c')?.text, root.textOf('c'), root.find('b', 'd')]).toEqual(
      ['1', '', undefined, undefined],
    )
  })

  it('resolves names in texts', () => {
    const root = parseXml(
      '<a xmlns="urn:default" xmlns:t="urn:outer"><b xmlns:t="urn:inner">t:X</b></a>',
    )
    expect(root.find('b')?.qualifiedName('t:X')).toEqual({ namespace: 'urn:inner', local: 'X' })
    expect(root.qualifiedName('t:X')).toEqual({ namespace: 'urn:outer', local: 'X' })
    expect(root.qualifiedName('X')).toEqual({ namespace: 'urn:default', local: 'X' })
    expect(root.qualifiedName('u:X')).toEqual({ namespace: undefined, local: 'X' })
  })

  it('is decoded by its declared encoding', () => {
    const latin = Buffer.from('<?xml version="1.0" encoding="ISO-8859-1"?><a>caf\xe9</a>', 'latin1')
    const utf16 = Buffer.from('\ufeff<a>café</a>', 'utf16le')
    const utf8 = Buffer.from('\ufeff<?xml version="1.0"?><a>café</a>')
    for (const document of [latin, utf16, utf8, '<a>café</a>'])
      expect(parseXml(document).text).toBe('café')
  })

  it('is decoded by its byte order mark, whatever encoding is declared', () => {
    for (const encoding of ['ISO-8859-1', 'gb2312', 'UTF-16', 'x-none']) {
      const document = `\ufeff<?xml version="1.0" encoding="${encoding}"?><a>café</a>`
      for (const bytes of ['utf8', 'utf16le'] as const)
        for (const charset of [undefined, encoding])
          expect(parseXml(Buffer.from(document, bytes), { charset }).text).toBe('café')
    }
  })

  it.each(['utf-16', 'UTF-16LE', 'utf16', 'ISO-10646-UCS-2', 'ucs-4', 'UTF-32', 'unicode'])(
    'is UTF-8 if it declares %s in single bytes',
    (encoding) => {
      const document = `<?xml version="1.0" encoding="${encoding}"?><a>café</a>`
      for (const bytes of [document, `\ufeff${document}`, `\r\n${document}`, '<a>café</a>'])
        for (const charset of [undefined, encoding])
          expect(parseXml(Buffer.from(bytes), { charset }).text).toBe('café')
    },
  )

  it.each(['utf-16le', 'utf-16'])('is %s if its header says so, and its bytes agree', (charset) => {
    for (const document of [
      '<a>café</a>',
      '\r\n<?xml version="1.0" encoding="utf-16"?><a>café</a>',
    ])
      expect(parseXml(Buffer.from(document, 'utf16le'), { charset }).text).toBe('café')
  })

  it('has replacement characters for bytes that are not UTF-8, and no other markup', () => {
    const declaration = '<?xml version="1.0" encoding="UTF-8"?>'
    for (const before of ['', declaration, '\xef\xbb\xbf']) {
      const bytes = Buffer.from(`${before}<a>caf\xe9<b c="\xb1\xb1\xbe"/>\xe0\xa9</a>`, 'latin1')
      const root = parseXml(bytes)
      expect([root.text, root.find('b')?.attributes.get('c')]).toEqual([
        'caf\ufffd\ufffd',
        '\ufffd\ufffd\ufffd',
      ])
    }
    // Long forms of `<b/>` and `&lt;` are no markup.
    const long = Buffer.from('<a>\xc0\xbcb/\xc0\xbe\xc0\xa6lt;</a>', 'latin1')
    expect(parseXml(long)).toMatchObject({ children: [], text: expect.stringMatching(/^\ufffd+b/) })
  })

  const deep = (depth: number) => `${'<a>'.repeat(depth)}${'</a>'.repeat(depth)}`
  const attributes = (count: number) =>
    Array.from({ length: count }, (_, n) => `a${n}="1"`).join(' ')
  const bomb = '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;">]><a>&c;&c;</a>'

  it('may have the size of the limits', () => {
    expect(parseXml(deep(64)).name).toBe('a')
    expect(parseXml(`<a>${'<b/>'.repeat(3_999)}</a>`).children.length).toBe(3_999)
    expect(parseXml(`<a ${attributes(2_000)}/>`).attributes.size).toBe(2_000)
    expect(
      parseXml('<a/>', { maxBytes: 4, maxDepth: 1, maxElements: 1, maxAttributes: 0 }).name,
    ).toBe('a')
    expect(parseXml('<a b = "c"\n/>', { maxAttributes: 1 }).attributes.get('b')).toBe('c')
  })

  it('counts attributes in tags only, not in values, texts, comments and CDATA', () => {
    const values =
      `<a b="/> d='e'" f='" g="h'>i="j" ` + '<!-- <k l="m"> --><![CDATA[<n o="p">]]> &gt;</a>'
    expect([...parseXml(values, { maxAttributes: 2, maxElements: 1 }).attributes.keys()]).toEqual([
      'b',
      'f',
    ])
    expect(() => parseXml(values, { maxAttributes: 1 })).toThrow('more than 1 attributes')
  })

  it.each([
    ['of too many bytes', `<a>${'x'.repeat(300_000)}</a>`, 'more than 262144'],
    ['of too many elements', `<a>${'<b/>'.repeat(4_000)}</a>`, 'more than 4000 elements'],
    ['of too many attributes', `<a ${attributes(2_001)}/>`, 'more than 2000 attributes'],
    [
      'of too many attributes of many elements',
      `<a>${'<b c="" d=""/>'.repeat(1_001)}</a>`,
      'more than 2000 attributes',
    ],
    [
      'of too many namespaces',
      `<a>${'<b xmlns="c"/>'.repeat(2_001)}</a>`,
      'more than 2000 attributes',
    ],
    [
      'with attributes without blanks between',
      '<a b="1"c="2"/>',
      'no whitespace between attributes',
    ],
    ['with an attribute without a value', '<a b />', 'without value'],
    ['with < in a value', '<a b="<"/>', 'disallowed character'],
    ['too deep', deep(65), 'nested'],
    ['that have a document type', bomb, 'document type'],
    [
      'that have an external entity',
      '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
      'document type',
    ],
    ['with an unknown entity', '<a>&b;</a>', 'undefined entity'],
    ['with a bare &', '<a>b & c</a>', 'not well-formed'],
    ['with a character that XML does not allow', '<a>&#0;</a>', 'character entity'],
    ['with half a surrogate pair', '<a>&#xD800;</a>', 'character entity'],
    ['with a number that is not a character', '<a>&#x110000;</a>', 'character entity'],
    ['with an element that is not closed', '<a><b></a>', 'close tag'],
    ['with an end only', '</a>', 'closing tag'],
    ['with two root elements', '<a/><b/>', 'only one root'],
    ['with text after the end', '<a></a>text', 'text'],
    ['with a processing instruction', '<a/><?php evil?>', 'processing instruction'],
    ['with an open comment', '<a/><!-- ', 'unexpected end'],
    ['with the same attribute twice', '<a b="1" b="2"/>', 'duplicate attribute'],
    ['that are JSON', '{"a":1}', 'outside of root'],
    ['of nothing', '', 'root element'],
    [
      'with bytes of another encoding than their declared one',
      Buffer.from('<?xml version="1.0" encoding="euc-jp"?><a>\xff</a>', 'latin1'),
      'euc-jp',
    ],
    [
      'in an unknown encoding',
      Buffer.from('<?xml version="1.0" encoding="x-none"?><a/>'),
      'x-none',
    ],
  ])('is refused: documents %s', (_what, document, reason) => {
    expect(() => parseXml(document)).toThrow(
      expect.objectContaining({
        code: 'AKRI_ERR_ONVIF_XML',
        message: expect.stringContaining(reason),
      }),
    )
  })

  it('is refused with a short reason, also with long names', () => {
    for (const document of [
      `<a>${'<b>'.repeat(60)}`,
      `<${'b'.repeat(9_999)}>`,
      `<a ${'b'.repeat(9_999)}/>`,
      `<a b="&${'b'.repeat(9_999)};"/>`,
    ]) {
      expect(() => parseXml(document)).toThrow(
        expect.objectContaining({ message: expect.stringMatching(/^.{10,201}$/s) }),
      )
    }
  })

  const BYTES = 256 * 1024
  /** As many parts as fit into the limit. */
  const full = (part: (n: number) => string, before: string, after: string) => {
    let document = before
    for (let n = 0; document.length + 40 < BYTES; n++) document += part(n)
    return document + after
  }

  // Each document is at the limits, or exceeds all but the limit of bytes. An idle machine needs a
  // fifth of the time.
  it.each([
    ['elements up to the limit', `<a>${'<b></b>'.repeat(3_999)}</a>`],
    ['attributes of one element up to the limit', `<a ${attributes(2_000)}/>`],
    ['attributes of many elements up to the limit', `<a>${'<b c=""/>'.repeat(2_000)}</a>`],
    ['namespaces up to the limit', `<a>${'<b xmlns:c="d"/>'.repeat(2_000)}</a>`],
    [
      'nested namespaces around many elements',
      `<a ${Array.from({ length: 2_000 }, (_, n) => `xmlns:a${n}="1"`).join(' ')}>` +
        `${'<b:c/>'.repeat(3_999)}</a>`,
    ],
    ['elements', full(() => '<b/>', '<a>', '</a>')],
    ['attributes', full((n) => `a${n}="" `, '<a ', '/>')],
    ['attributes of several elements', full((n) => `<b a${n}="" c='' />`, '<a>', '</a>')],
    ['attributes without values', full(() => 'b ', '<a ', '/>')],
    ['comments', full(() => '<!---->', '<a>', '</a>')],
    ['open comments', full(() => '<!--', '', '')],
    ['open CDATA sections', full(() => '<![CDATA[', '<a>', '')],
    ['white space in a tag', full(() => ' ', '<a ', 'b>')],
    ['open tags', full(() => '<"', '<a>', '')],
    ['tags with alternating open quotes', full(() => `<"'`, '<a>', '')],
    ['quoted tags', full(() => '<', '<a b="', '"/>')],
    ['quotes', full(() => '"', '<a b=', '>')],
    ['ampersands', full(() => '&', '<a>', '</a>')],
    ['references', full(() => '&lt;', '<a>', '</a>')],
    ['references in a value', full(() => '&lt;', '<a b="', '"/>')],
    ['lines', full(() => '\n', '<a>', '</b>')],
    ['text', full(() => 'x', '<a>', '</a>')],
  ])('is parsed quickly: 256 KiB of %s', async (_what, document) => {
    expect(document.length).toBeLessThan(BYTES)
    const parse = () => {
      try {
        parseXml(document)
      } catch (error) {
        expect(error).toBeInstanceOf(OnvifXmlError)
      }
    }
    expect(await costOf(parse)).toBeLessThan(200)
  })

  it('carries any text unchanged, except characters that XML does not allow', () => {
    // Section 2.2 of the specification.
    const writable = (code: number) =>
      [0x9, 0xa, 0xd].includes(code) ||
      (code >= 0x20 && code < 0xd800) ||
      (code >= 0xe000 && code < 0xfffe) ||
      code > 0xffff
    const carried = (text: string) =>
      [...text]
        .filter((character) => writable(character.codePointAt(0) ?? 0))
        .join('')
        .trim()
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(parseXml(`<a b="${escapeXml(text)}">${escapeXml(text)}</a>`).text).toBe(
          carried(text),
        )
        expect(
          parseXml(`<a b="${escapeXml(text)}"/>`)
            .attributes.get('b')
            ?.trim(),
        ).toBe(carried(text))
      }),
    )
    expect(escapeXml('a\0\ud800<&>"\'\r')).toBe('a&#60;&#38;&#62;&#34;&#39;&#13;')
  })

  it('is parsed, or refused with OnvifXmlError', { timeout: timeoutMs }, () => {
    const piece = fc.constantFrom(
      ...[
        '<a>',
        '</a>',
        '<b c="d">',
        '</b>',
        '<b/>',
        '<!--',
        '-->',
        '<![CDATA[',
        ']]>',
        '<?xml version="1.0"?>',
        '<?p',
        '?>',
      ],
      ...[
        '<!DOCTYPE a [',
        ']>',
        '<!ENTITY b "c">',
        '&b;',
        '&amp;',
        '&#65;',
        '&#xFFFFFFFF;',
        '&',
        ';',
        '<',
        '>',
        '"',
        "'",
        '=',
      ],
      ...[
        'xmlns',
        'xmlns:p="q"',
        '<p:a',
        '<:',
        '@',
        '#text',
        '#cdata',
        ':@',
        '__proto__',
        'constructor',
        'toString',
        '\0',
        '\ufeff',
        '\r\n',
      ],
    )
    const pieces = fc.array(
      fc.oneof({ weight: 4, arbitrary: piece }, fc.string({ unit: 'binary', maxLength: 6 })),
      {
        maxLength: 40,
      },
    )
    const bytes = fc.uint8Array({ maxLength: 200 })
    const whole = '<?xml version="1.0"?><s:E xmlns:s="u"><s:B c="1">t&amp;<![CDATA[x]]></s:B></s:E>'
    const changed = fc
      .tuple(fc.nat(whole.length), fc.nat(8), pieces)
      .map(([at, length, to]) => whole.slice(0, at) + to.join('') + whole.slice(at + length))
    fc.assert(
      fc.property(
        fc.oneof(
          pieces.map((all) => all.join('')),
          pieces.map((all) => `<a>${all.join('')}</a>`),
          changed,
          bytes,
        ),
        (document) => {
          try {
            const root = parseXml(document)
            expect(typeof root.name).toBe('string')
            expect(typeof root.text).toBe('string')
          } catch (error) {
            if (!(error instanceof OnvifXmlError)) throw error
          }
        },
      ),
      parameters,
    )
  })
})
