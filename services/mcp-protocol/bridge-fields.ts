/** The fields by which the bridge and a tool server behind it understand each other (docs/decisions/0047-bridge.md). */
export const ownPrefix = 'espalier.dev/'
/** Names the client's connection in `_meta`. */
export const connectionField = `${ownPrefix}connection`
/** Describes the caller in `_meta`. */
export const callerField = `${ownPrefix}caller`
export const closedMethod = `notifications/${ownPrefix}closed`
/** An experimental capability: the server tells connections apart. */
export const bridgeCapability = `${ownPrefix}bridge`
