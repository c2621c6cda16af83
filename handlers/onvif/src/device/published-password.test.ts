import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fuzz } from '../../../../test/support/fuzz.js'
import { hasPassword } from './published-password.js'

const { parameters } = fuzz({ runs: 1000 })

const uriWith = (text: string) => `rtsp://10.0.0.1/live?user=viewer&key=${text}&channel=1`

describe('a password in a published URI', () => {
  it.each([
    ["it's-me", 'it%27s-me'],
    ['top secret', 'top+secret'],
    ['top secret', 'top%20secret'],
    ['top secret', 'top%2Bsecret'],
    ['top+secret', 'top+secret'],
    ['top+secret', 'top%2bsecret'],
    ['top+secret %', 'top%2Bsecret+%25'],
    ['pass!word1', 'pass%21word1'],
    ['hunter2', '%68unter2'],
    ['a/b/c', 'a%2fb/c'],
    ['a/b/c', 'a%252fb%252Fc'],
    ['100%41x', '100%41x'],
    ['100%zz', '100%zz'],
    ['100%zz', '100%25zz%'],
    ['schön', 'sch%C3%B6n'],
    ['schön', 'sch%F6n'],
    ['пароль', '%d0%bf%d0%b0%d1%80%d0%be%d0%bb%d1%8c'],
  ])('is found in each encoding: %s as %s', (password, text) => {
    expect(hasPassword(uriWith(text), password)).toBe(true)
  })

  it.each([
    ['hunter2', 'hunter1'],
    ['schön', 'schon'],
    ['liv', 'x'],
    ['', 'x'],
  ])('is not found where it is not, or is too short to tell: %s in %s', (password, text) => {
    expect(hasPassword(uriWith(text), password)).toBe(false)
  })

  it('is found with any of its bytes encoded', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 4, unit: 'grapheme' }),
        fc.array(fc.boolean(), { minLength: 1 }),
        (password, choices) => {
          const text = [...Buffer.from(password)]
            .map((byte, index) => {
              const character = String.fromCharCode(byte)
              const isPlain = choices[index % choices.length] && /[\w~.-]/.test(character)
              return isPlain ? character : `%${byte.toString(16).padStart(2, '0')}`
            })
            .join('')
          expect(hasPassword(new URL(uriWith(text)).href, password)).toBe(true)
          expect(hasPassword(uriWith(encodeURIComponent(text)), password)).toBe(true)
        },
      ),
      parameters,
    )
  })
})
