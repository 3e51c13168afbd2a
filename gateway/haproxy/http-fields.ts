/** The format of values in the map `services`: http-maps.ts writes them, and the rules of https.ts read them. */

/**
 * The fields of values in `services`, separated by `|`. `ownerFields` are for the key `<owner>`, and `serviceFields`
 * for the key `<owner>/<service>`. An owner is a host name, or `/<database id>`.
 */
export const ownerFields = ['label', 'has'] as const
export const serviceFields = ['network', 'address', 'port', 'bridgePort', 'unavailable', 'tokenDigest'] as const
/** Separates an owner's services. A space would end a command's argument. */
export const hasSeparator = '+'
