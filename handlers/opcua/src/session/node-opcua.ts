import { OpcuaClientMissingError } from '../errors.js'

export type NodeOpcua = typeof import('node-opcua-client')

/**
 * Loads the client of node-opcua, which takes some 50 MB of memory and stays loaded.
 * @throws OpcuaClientMissingError if the package is not installed
 */
export async function loadNodeOpcua(): Promise<NodeOpcua> {
  const library = await import('node-opcua-client').catch((cause: unknown) => {
    throw new OpcuaClientMissingError(
      'serverDetails needs the package node-opcua-client: run npm install node-opcua-client, ' +
        'build the image with its target with-opcua-client, or remove serverDetails',
      { cause },
    )
  })
  // The library prints to the terminal. Everything important also comes as an error.
  library.setDebugLogger(() => undefined)
  library.setWarningLogger(() => undefined)
  library.setErrorLogger(() => undefined)
  return library
}
