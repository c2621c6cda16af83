const FORMS = 'ns=2;s=Temperature, ns=2;i=85, ns=2;g=<GUID> or ns=2;b=<base64>'
const GUID = '[\\da-f]{8}(?:-[\\da-f]{4}){3}-[\\da-f]{12}'
const NODE_ID = new RegExp(
  `^(?:ns=(\\d{1,5});)?(?:i=(\\d{1,10})|s=.+|g=${GUID}|b=[\\w+/]+={0,2})$`,
  'is',
)

/**
 * What is wrong with a node id (OPC 10000-6, 5.3.1.10); undefined for a valid node id. Without
 * `ns=` the id is of namespace 0.
 */
export function nodeIdProblem(text: string): string | undefined {
  const [match, namespace = '0', number = '0'] = NODE_ID.exec(text) ?? []
  const isValid = match !== undefined && Number(namespace) < 2 ** 16 && Number(number) < 2 ** 32
  return isValid ? undefined : `${JSON.stringify(text)} is no node id: write ${FORMS}`
}
