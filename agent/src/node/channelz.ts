/** grpc-js keeps an account of each connection and call for its channelz service, which nobody here serves: a node has many. */
export const NO_CHANNELZ = { 'grpc.enable_channelz': 0 }
