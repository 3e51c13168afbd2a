/** Names of fields and extensions in the newest revision. */
const prefix = 'io.modelcontextprotocol/'

export const versionKey = `${prefix}protocolVersion`
export const capabilitiesKey = `${prefix}clientCapabilities`
export const clientInfoKey = `${prefix}clientInfo`
export const logLevelKey = `${prefix}logLevel`
export const serverInfoKey = `${prefix}serverInfo`
export const subscriptionKey = `${prefix}subscriptionId`
export const tasksExtension = `${prefix}tasks`
