import { describe, expect, it } from 'vitest'
import { nodeIdProblem } from './node-id.js'

describe('a node id', () => {
  it.each([
    'i=2258',
    'ns=1;s=Level',
    'ns=65535;i=4294967295',
    'ns=2;s=a;b=c d',
    'ns=3;s="DB"."Level"',
    'ns=2;g=72962B91-FA75-4AE6-8D28-B404DC7DAF63',
    'ns=2;b=M/RbKBsRVkePCePcx24oRA==',
  ])('can be %s', (text) => expect(nodeIdProblem(text)).toBeUndefined())

  it.each([
    '',
    'Level',
    'ns=1',
    'ns=1;Level',
    'ns=one;s=Level',
    'ns=65536;s=Level',
    'ns=1;s=',
    'i=level',
    'i=4294967296',
    'i=-1',
    'ns=1;g=72962B91',
    'ns=1;b=*',
    ' i=85',
  ])('cannot be %j', (text) => expect(nodeIdProblem(text)).toContain('is no node id: write ns='))
})
