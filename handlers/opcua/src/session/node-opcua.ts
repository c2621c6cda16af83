import { messageOf } from '@akrijs/sdk'
import { OpcuaClientMissingError } from '../errors.js'

export type NodeOpcua = typeof import('node-opcua-client')

/**
 * node-opcua's client: some 50 MB that only a session needs. It is loaded when it is first asked for, and stays.
 * @throws OpcuaClientMissingError where it is not installed
 */
export async function loadNodeOpcua(): Promise<NodeOpcua> {
  let library: NodeOpcua
  try {
    library = await import('node-opcua-client')
  } catch (cause) {
    throw new OpcuaClientMissingError(
      `serverDetails needs the package node-opcua-client: npm install node-opcua-client, or leave serverDetails out (${messageOf(cause).split('\n')[0]})`,
      { cause },
    )
  }
  // It would print for people. What matters of it comes as errors.
  library.setDebugLogger(() => undefined)
  library.setWarningLogger(() => undefined)
  library.setErrorLogger(() => undefined)
  return library
}
