import { Server, ServerCredentials } from '@grpc/grpc-js'

/** A gRPC server of another program, on a socket. Its `forceShutdown` ends it. */
export async function grpcServer(
  socket: string,
  ...[service, methods]: Parameters<Server['addService']>
): Promise<Server> {
  const server = new Server()
  server.addService(service, methods)
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    ),
  )
  return server
}
