// Draws the description of the API. Requests made from the page use the session, so they carry its CSRF token.
"use strict";

const csrfToken = () =>
  document.cookie
    .split("; ")
    .find((cookie) => cookie.startsWith("hitl_csrf="))
    ?.slice("hitl_csrf=".length) ?? "";

const place = document.getElementById("api");

window.ui = SwaggerUIBundle({
  domNode: place,
  url: place.dataset.schema,
  deepLinking: true,
  validatorUrl: null,
  tryItOutEnabled: false,
  displayRequestDuration: true,
  requestInterceptor: (request) => {
    if (!["GET", "HEAD"].includes(request.method ?? "GET")) request.headers["X-CSRFToken"] = csrfToken();
    return request;
  },
});
