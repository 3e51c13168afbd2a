/**
 * Times as clients see them: always RFC 3339 in UTC with milliseconds. Kubernetes writes whole seconds, Espalier writes
 * milliseconds, and people write offsets.
 */
export const apiTime = (time: string | undefined): string => (time === undefined ? '' : new Date(time).toISOString())
