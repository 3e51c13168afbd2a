/** The format of values in the map `services`: http-maps.ts writes them, and the rules of https.ts read them. */

/**
 * The fields of values in `services`, in this order, separated by `|`: the fields of an owner's name alone, and those
 * of a service.
 */
export const ownerFields = ['label', 'has'] as const
export const serviceFields = ['network', 'address', 'port', 'bridgePort', 'unavailable', 'tokenDigest'] as const
/** Separates an owner's services. It is not a space, because a space would end a command's argument. */
export const hasSeparator = '+'
