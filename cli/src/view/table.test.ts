import { firstLine } from '@akrijs/runtime'
import stringWidth from 'string-width'
import { describe, expect, it } from 'vitest'
import { formatMessages, formatTable, shorten } from './table.js'

describe('tables', () => {
  it('align columns, also with wide characters', () => {
    expect(
      formatTable(
        ['A', 'B'],
        [
          ['カメ', '1'],
          ['x', '2'],
        ],
      ),
    ).toBe('A      B\nカメ   1\nx      2')
  })

  it('can have more rows than a call can have arguments', () => {
    const rows = Array.from({ length: 130_000 }, () => ['x'])
    expect(formatTable(['A'], rows).split('\n')).toHaveLength(130_001)
  })

  it('print no control characters', () => {
    expect(formatTable(['A'], [['\u001b[2J']])).not.toContain('\u001b')
  })

  it('show further lines of a message below their row, with aligned carets', () => {
    const message =
      'udevRules[0]: line 1, column 7\r\n  KERNEL="null"\n        ^ \u001b[2Jwrite ==\n'
    expect(
      formatMessages(
        ['REASON', 'MESSAGE'],
        [
          ['InvalidDetails', message],
          ['Ready', 'all is well'],
        ],
      ),
    ).toEqual([
      'REASON           MESSAGE',
      'InvalidDetails   udevRules[0]: line 1, column 7',
      '      KERNEL="null"',
      '            ^ \u{fffd}[2Jwrite ==',
      'Ready            all is well',
    ])
    expect(firstLine(message)).toBe('udevRules[0]: line 1, column 7')
    // A line break in a value of a device is a control character like any other.
    expect(formatTable(['A'], [['a\nb']])).toBe('A\na\u{fffd}b')
  })

  it('are cut to a width', () => {
    expect(shorten('abcdef', 4)).toBe('abc…')
    expect(stringWidth(shorten('カメラカメラ', 6))).toBeLessThanOrEqual(6)
    // Combining marks have no width.
    expect(shorten(`e${'\u0301'.repeat(100_000)}`, 6).length).toBeLessThan(100)
  })
})
