/** Espalier's own fields, which the bridge and the tool server behind it exchange (docs/decisions/0047-bridge.md). */
export const ownPrefix = 'espalier.dev/'
/** The name of the client's connection, in `_meta`. */
export const connectionField = `${ownPrefix}connection`
/** The description of the caller, in `_meta`. */
export const callerField = `${ownPrefix}caller`
export const closedMethod = `notifications/${ownPrefix}closed`
/** An experimental capability: the server distinguishes the bridge's connections. */
export const bridgeCapability = `${ownPrefix}bridge`
