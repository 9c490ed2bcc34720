document.body.textContent = "the page itself";
