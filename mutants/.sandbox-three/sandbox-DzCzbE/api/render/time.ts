/**
 * Times as clients see them: RFC 3339 in UTC with milliseconds, always, whoever wrote them. (Kubernetes writes whole
 * seconds, we write milliseconds, and people write offsets.)
 */
// @ts-nocheck

export const apiTime = (time: string | undefined): string => (time === undefined ? '' : new Date(time).toISOString())
