import { type AwkwardCamera, inSingleBytes, replacing } from './awkward-camera.js'

export const XML: readonly AwkwardCamera[] = [
  { name: 'answers by nothing', misbehave: ['empty'], expected: 'no answer of a camera' },
  {
    name: 'begins its reply by lines',
    misbehave: ['white-space-before'],
    expected: 'offered none',
  },
  { name: 'ends its reply by zeros', misbehave: ['zeros-after'], expected: 'offered none' },
  { name: 'writes Latin-1, as its XML says', misbehave: ['latin-1'], expected: 'offered none' },
  {
    name: 'writes Latin-1, as only its header says',
    misbehave: ['charset-in-header'],
    expected: 'offered none',
  },
  {
    name: 'declares UTF-16 in a reply that is UTF-8',
    misbehave: [replacing('UTF-8', 'utf-16')],
    expected: 'offered none',
  },
  {
    name: 'declares UTF-8 in a reply with GB2312',
    misbehave: [
      { answer: (response, correct) => response.end(inSingleBytes(correct, '</SOAP-ENV:Body>')) },
    ],
    expected: 'offered none',
  },
  {
    name: 'names an unknown encoding',
    misbehave: ['unknown-charset'],
    expected: 'no answer of a camera',
  },
  { name: 'forgets an end tag', misbehave: ['broken-xml'], expected: 'no answer of a camera' },
  {
    name: 'sends entities in entities',
    misbehave: ['entity-bomb'],
    expected: 'no answer of a camera',
  },
  { name: 'nests 3,000 elements', misbehave: ['deep-xml'], expected: 'no answer of a camera' },
  {
    name: 'sends 50,000 elements',
    misbehave: ['many-elements'],
    expected: 'no answer of a camera',
  },
  { name: 'speaks SOAP 1.1', misbehave: ['soap-1.1'], expected: 'offered none' },
  { name: 'has other prefixes', misbehave: ['other-prefixes'], expected: 'offered none' },
  { name: 'declares no prefixes', misbehave: ['undeclared-prefixes'], expected: 'offered none' },
  {
    name: 'answers another question',
    misbehave: ['other-response'],
    expected: 'no answer of a camera',
  },
  { name: 'fails at each question', misbehave: ['server-error'], expected: 'HTTP status 500' },
  { name: 'has a fault for each question', misbehave: ['fault'], expected: 'offered none' },
]
