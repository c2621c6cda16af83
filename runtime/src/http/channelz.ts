/**
 * Switches off the records that grpc-js keeps of each connection and call: no program serves
 * channelz, and a node has many calls.
 */
export const NO_CHANNELZ = { 'grpc.enable_channelz': 0 }
